"""What is known of types and shapes: onnx's inference, where it is overridden, and what follows from dimensions."""
