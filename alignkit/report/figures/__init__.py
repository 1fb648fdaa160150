"""Figures, tables, remarks and neighbours that a task gives, on the page."""
