"""The user's requests to change the model itself. Before the passes: input sizes, outputs, types of
outputs, and the opset. After the passes: the precision.

The verification compares the result with the changed model, as it was before its opset was raised.
"""
