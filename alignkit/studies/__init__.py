"""Commands that measure without a run: diff, bisect, calibrate, compare runs, data."""
