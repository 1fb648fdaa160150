"""Results of a run → the types of the record: matrix, changes, published figures, machine."""
