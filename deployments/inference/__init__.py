"""ONNX models and their tokenizers as scores and vectors; knows nothing of Ray."""
