"""The HTML page and the summary of a run, from its record alone."""
