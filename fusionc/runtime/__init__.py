"""Run onnxruntime in a child process. So a crash, a hang or a lack of memory of onnxruntime does
not end fusionc, which shows an error message.
"""
