"""Commands that measure without a run, or on a stored one: bench, bisect, diff, tolerance."""
