/* The functions that onnxruntime calls for a custom operator whose kernel consists of loops. */

/* A library with this mark is one that fusionc has made, and may replace. */
__attribute__((visibility("default"))) extern const char fusionc_made_this[];
const char fusionc_made_this[] = "kernels of areas, made by fusionc";

static const gk_kernel *gk_kernel_of(const OrtCustomOp *op) {
  return ((const gk_operator *)op)->kernel;
}
const char *gk_name(const OrtCustomOp *op) { return gk_kernel_of(op)->name; }
const char *gk_provider(const OrtCustomOp *op) { return (void)op, (const char *)NULL; }
size_t gk_inputs(const OrtCustomOp *op) { return (size_t)gk_kernel_of(op)->inputs; }
size_t gk_outputs(const OrtCustomOp *op) { return (size_t)gk_kernel_of(op)->outputs; }
int gk_input_type(const OrtCustomOp *op, size_t i) { return gk_kernel_of(op)->types[i]; }
int gk_output_type(const OrtCustomOp *op, size_t i) {
  return gk_kernel_of(op)->types[(size_t)gk_kernel_of(op)->inputs + i];
}
int gk_nothing_of(const OrtCustomOp *op, size_t i) { return (void)op, (void)i, 0; }
int gk_version(const OrtCustomOp *op) { return (void)op, 1; }
void gk_destroy(void *kernel) { (void)kernel; }
OrtStatus *gk_create(const OrtCustomOp *op, OrtApi *api, const OrtKernelInfo *info,
                            void **kernel) {
  (void)api, (void)info;
  *kernel = (void *)(uintptr_t)gk_kernel_of(op);
  return NULL;
}

static void *gk_share(void *context, void (*task)(void *, size_t), size_t tasks, void *work) {
  return GK_ORT_ParallelFor(gk_api)(context, task, tasks, 0, work);
}

/* Copies the sizes of a value into dims. This allocates memory each time, but older versions of
 * onnxruntime have no other function. */
static OrtStatus *gk_copied_sizes(const OrtValue *value, short rank, int64_t *dims,
                                  size_t *actual) {
  OrtShape *shape;
  OrtStatus *status = GK_ORT_GetShape(gk_api)(value, &shape);
  if (status) return status;
  status = GK_ORT_GetRank(gk_api)(shape, actual);
  if (!status && *actual && *actual == (size_t)rank)
    status = GK_ORT_GetDimensions(gk_api)(shape, dims, *actual);
  GK_ORT_ReleaseShape(gk_api)(shape);
  return status;
}

/* Points *sizes to the sizes of an input, which may be copied into dims, and points *data to its
 * data. Clears *fits if the input has another rank. */
static OrtStatus *gk_input(OrtKernelContext *context, size_t i, short rank, int64_t *dims,
                           const int64_t **sizes, char **data, int *fits) {
  const OrtValue *value;
  size_t actual;
  int type;
  OrtStatus *status = GK_ORT_GetInput(gk_api)(context, i, &value);
  if (!status) status = GK_ORT_GetData(gk_api)((OrtValue *)(uintptr_t)value, (void **)data);
  if (status) return status;
  *sizes = dims;
  status = gk_has_reference ? GK_ORT_GetShapeReference(gk_api)(value, &type, sizes, &actual)
                            : gk_copied_sizes(value, rank, dims, &actual);
  if (!status && actual != (size_t)rank) *fits = 0;
  return status;
}

OrtStatus *gk_compute(void *self, OrtKernelContext *context) {
  const gk_kernel *kernel = self;
  const size_t inputs = (size_t)kernel->inputs, outputs = (size_t)kernel->outputs;
  int64_t sizes[GK_TENSORS][GK_RANK];
  const int64_t *in[GK_TENSORS];
  int64_t *out[GK_TENSORS];
  char *tensors[GK_TENSORS];
  gk_piece pieces[GK_PIECES];
  OrtStatus *status = NULL;
  int fits = 1;
  for (size_t i = 0; i < inputs && !status; ++i)
    status = gk_input(context, i, kernel->ranks[i], sizes[i], &in[i], &tensors[i], &fits);
  if (status) return status;
  for (size_t i = 0; i < outputs; ++i) out[i] = sizes[inputs + i];
  if (!fits || kernel->plan(in, out, pieces)) return gk_otherwise(kernel, context);
  for (size_t i = 0; i < outputs && !status; ++i) {
    OrtValue *value;
    status =
        GK_ORT_GetOutput(gk_api)(context, i, out[i], (size_t)kernel->ranks[inputs + i], &value);
    if (!status) status = GK_ORT_GetData(gk_api)(value, (void **)&tensors[inputs + i]);
  }
  for (size_t i = inputs + outputs; kernel->tables[i - inputs - outputs]; ++i)
    tensors[i] = (char *)(uintptr_t)kernel->tables[i - inputs - outputs];
  int failed = 0;
  for (int k = 0; k < kernel->pieces && !status && !failed; ++k) {
    pieces[k].scalar = kernel->scalars + kernel->forms[k].scalar;
    status = gk_run(&kernel->forms[k], &pieces[k], tensors, gk_share, context, &failed);
  }
  return status || !failed
             ? status
             : GK_ORT_CreateStatus(gk_api)(GK_FAIL, "no memory for the rows of a kernel");
}
