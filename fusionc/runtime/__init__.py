"""Run onnxruntime in a child process. If onnxruntime crashes, hangs or runs out of memory, that is
only an error message in fusionc.
"""
