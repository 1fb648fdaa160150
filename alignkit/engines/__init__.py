"""Export of checkpoints to ONNX, and builds of engines, each kept under a content hash."""
