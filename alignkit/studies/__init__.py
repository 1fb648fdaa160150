"""Commands that measure without a run: bench, diff, bisect, calibrate, compare runs, data."""
