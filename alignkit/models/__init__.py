"""Network architectures, their weights, and the models that a user brings."""
