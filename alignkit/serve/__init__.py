"""Serving options under load: path × backend × precision of a model, each in its own process.

Options take turns, round by round, so that a slowdown of the machine slows all of them.
"""
