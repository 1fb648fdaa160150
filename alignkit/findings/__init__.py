"""Turn measured results into the types of the record."""
