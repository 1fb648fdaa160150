"""Measured results → the types of the record."""
