"""Run onnxruntime in a child process. If onnxruntime crashes, hangs or lacks memory, fusionc
continues and shows an error message.
"""
