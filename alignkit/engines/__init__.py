"""Checkpoint → ONNX graph → engine, each kept under a content hash."""
