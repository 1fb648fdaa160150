"""Commands that measure without a run, or on a stored one: diff, bisect, calibrate, tolerance."""
