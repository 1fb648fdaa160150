"""`alignkit gate`: measure what a file's rules need, whole or in shards, assert it, and tell CI.

`gate_check` does this for an experiment, `gate_run` for a file, `assertion` for two stacks in a
test; `baseline_recording` records what is approved, and `outputs` write the outcome. Nothing is
imported here: every command reads rules, few judge.
"""
