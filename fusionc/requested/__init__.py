"""What a user asks to change of a model itself, before any pass: its input sizes, its outputs, and
their types.

From there on the changed model is the original: passes see it, and the result is verified against
it.
"""
