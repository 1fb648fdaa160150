"""alignkit: how far an image model drifts when it is served as it was not trained."""

__version__ = "0.1.0"
