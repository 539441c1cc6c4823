"""The user's requests to change the model itself. Input sizes, outputs and the opset change before
the passes run, the precision and the types of outputs after them.

The verification compares the result with the changed model, as it was before its opset was raised.
"""
