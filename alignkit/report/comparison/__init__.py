"""Comparison of two runs as a page: its sentences, its matrix, the images that changed."""
