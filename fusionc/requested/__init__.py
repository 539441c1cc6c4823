"""What a user asks to change of a model itself, before any pass: its input sizes, its outputs and
their types, its opset.

The changed model, before its opset is raised, is what the result is verified against.
"""
