/* Runs kernels on memory of exactly the size of their tensors. Standard input has any number of runs: the number of a
 * kernel (int32), and then the sizes (int64) and the elements of each input. Standard output has the sizes (int64) and
 * the elements of each output of all runs. If a kernel cannot run, the reason is printed and the exit code is 2. */

static const size_t bytes_of[] = {0, 4, 1, 1, 2, 2, 4, 8, 0, 1, 2, 8};

static size_t size_of(const gk_kernel *kernel, int tensor, const int64_t *sizes) {
  size_t bytes = bytes_of[kernel->types[tensor]];
  for (int k = 0; k < kernel->ranks[tensor]; ++k) bytes *= (size_t)sizes[k];
  return bytes;
}

int main(void) {
  int32_t number;
  while (fread(&number, sizeof number, 1, stdin) == 1) {
    const gk_kernel *kernel = gk_operators[number].kernel;
    int64_t *in[GK_TENSORS], *out[GK_TENSORS];
    char *tensors[GK_TENSORS];
    gk_piece pieces[GK_PIECES];
    int all = kernel->inputs + kernel->outputs, failed = 0;
    for (int k = 0; k < all; ++k) {
      size_t bytes = (size_t)kernel->ranks[k] * sizeof(int64_t);
      int64_t *sizes = malloc(bytes);
      if (k < kernel->inputs) {
        take(in[k] = sizes, bytes);
        take(tensors[k] = malloc(size_of(kernel, k, sizes)), size_of(kernel, k, sizes));
      } else {
        out[k - kernel->inputs] = sizes;
      }
    }
    const char *contradiction = kernel->plan((const int64_t *const *)in, out, pieces);
    if (contradiction) {
      printf("%s: %s\n", kernel->name, contradiction);
      exit(2);
    }
    for (int k = kernel->inputs; k < all; ++k) tensors[k] = malloc(size_of(kernel, k, out[k - kernel->inputs]));
    for (int k = 0; kernel->tables[k]; ++k) tensors[all + k] = (char *)(uintptr_t)kernel->tables[k];
    for (int k = 0; k < kernel->pieces; ++k) {
      pieces[k].scalar = kernel->scalars + kernel->forms[k].scalar;
      gk_run(&kernel->forms[k], &pieces[k], tensors, one_after_another, NULL, &failed);
    }
    for (int k = kernel->inputs; k < all; ++k) {
      const int64_t *sizes = out[k - kernel->inputs];
      fwrite(sizes, sizeof(int64_t), (size_t)kernel->ranks[k], stdout);
      fwrite(tensors[k], 1, size_of(kernel, k, sizes), stdout);
    }
    if (failed) exit(4);
    for (int k = 0; k < all; ++k) {
      free(tensors[k]);
      free(k < kernel->inputs ? in[k] : out[k - kernel->inputs]);
    }
  }
  return 0;
}
