"""numpy's OpenBLAS starts its threads when it is imported, and they wait for work by spinning."""

# With two threads numpy takes 0.14 s of processor time to import, with one 0.08 s, in the process
# of a conversion and in that of onnxruntime. What few products of weights the command then computes
# have the same bits
# on any number of cores; who calls fusionc from Python has numpy's threads as they were when it was
# imported.
ONE_THREAD = ("OPENBLAS_NUM_THREADS", "1")
