"""Drift past the rules of a file → verdict and exit code.

`rule` says what a rule is, `observe` what was measured of it, `judge` what follows, and `check`
does all of it for an experiment. Nothing is imported here: every command reads rules, few judge.
"""
