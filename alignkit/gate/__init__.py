"""`alignkit gate`: measure what a file's rules need, in pixels or models, and tell CI.

`check` does this for an experiment, `result` for a file, and `outputs` write the outcome. Nothing
is imported here: every command reads rules, few judge.
"""
