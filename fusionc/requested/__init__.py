"""The user's requests to change the model itself before the passes run: input sizes, outputs, types
of outputs, and the opset.

The result is compared with the changed model before its opset is raised.
"""
