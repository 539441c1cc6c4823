"""The user's requests to change the model itself: input sizes, outputs, types of outputs and the
opset before the passes run, and the precision after them.

The verification compares the result with the changed model, as it was before its opset was raised.
"""
