"""Measure what the rules of a file ask for, judge it, and report the outcome to CI.

`check` does this for an experiment, `result` for a file, and `outputs` write the outcome. Nothing
is imported here: every command reads rules, few judge.
"""
