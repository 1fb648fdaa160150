"""Network architectures, checkpoints and weights, and the models that a user brings."""
