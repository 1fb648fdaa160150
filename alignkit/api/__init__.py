"""The Python interface: `diff`, `run`, `match` and `load_run`, with results as DataFrames.

Each calls the functions that the command of its name calls, takes the same options and raises the
same errors (`alignkit.errors.AlignkitError`). docs/python.md shows them. `alignkit` itself offers
them; nothing is imported here, so that one function does not load the libraries of the others.
"""
