"""Findings: results → types of the record: matrix, changes, published, limits, environment."""
