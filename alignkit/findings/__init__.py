"""Findings: results → types of the record: matrix, changes, provenance, environment."""
