/* A stand-in for onnxruntime, for kernels that run without it: inputs from standard input, and tasks on one thread. */
#include <stdio.h>

static void take(void *into, size_t bytes) {
  if (bytes && fread(into, 1, bytes, stdin) != bytes) exit(3);
}

static void *one_after_another(void *context, void (*task)(void *, size_t), size_t tasks, void *work) {
  (void)context;
  for (size_t k = 0; k < tasks; ++k) task(work, k);
  return NULL;
}

