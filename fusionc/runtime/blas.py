"""The number of threads of numpy's OpenBLAS. OpenBLAS starts its threads at import, and they spin
while they wait for work.
"""

# An environment variable of OpenBLAS and its value. With two threads the import of numpy takes
# 0.14 s of processor time, and with one thread 0.08 s; both the command and its child process
# import numpy. With one thread, the few matrix products that the command computes also have the
# same bits on any number of cores. If fusionc is called from Python, the variable is not set: the
# user's numpy keeps its threads.
ONE_THREAD = ("OPENBLAS_NUM_THREADS", "1")
