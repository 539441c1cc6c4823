/* Programs as custom operators of onnxruntime. Weights must be constants of the model, because they
 * are packed when a session is created. */
static const float *gb_table(const gk_kernel *kernel, int tensor) {
  return kernel->program->tables[tensor - kernel->inputs];
}

/* Sets *count to the number of elements of a value. */
static OrtStatus *gb_count(OrtApi *api, const OrtValue *value, ptrdiff_t *count) {
  OrtShape *shape;
  size_t rank = 0;
  OrtStatus *status = GK_ORT_GetShape(api)(value, &shape);
  if (status) return status;
  status = GK_ORT_GetRank(api)(shape, &rank);
  int64_t sizes[rank + 1];
  if (!status) status = GK_ORT_GetDimensions(api)(shape, sizes, rank);
  GK_ORT_ReleaseShape(api)(shape);
  *count = 1;
  for (size_t k = 0; k < rank && !status; ++k) *count *= (ptrdiff_t)sizes[k];
  return status;
}

/* Gets a constant input. Returns an error if the input is not a constant. */
static OrtStatus *gb_constant_of(OrtApi *api, const OrtKernelInfo *info, int tensor,
                                 gb_constant *constant) {
  const OrtValue *value = NULL;
  int is_constant = 0;
  OrtStatus *status = GK_ORT_GetConstant(api)(info, (size_t)tensor, &is_constant, &value);
  if (!status && (!is_constant || !value))
    status = GK_ORT_CreateStatus(api)(GK_INVALID_ARGUMENT,
                                      "the weights of a convolution are not constant");
  if (!status) status = gb_count(api, value, &constant->count);
  return status ? status
                : GK_ORT_GetData(api)((OrtValue *)(uintptr_t)value,
                                      (void **)(uintptr_t)&constant->data);
}

/* Looks up a constant tensor. Does nothing if `tensor` is -1, or if the tensor is known already. */
static OrtStatus *gb_take(const gk_kernel *kernel, OrtApi *api, const OrtKernelInfo *info,
                          int tensor, gb_constant *constants) {
  if (tensor < 0 || constants[tensor].data) return NULL;
  if (tensor < kernel->inputs) return gb_constant_of(api, info, tensor, &constants[tensor]);
  constants[tensor].data = gb_table(kernel, tensor);
  return NULL;
}

OrtStatus *gb_create(const OrtCustomOp *op, OrtApi *api, const OrtKernelInfo *info,
                            void **made) {
  const gk_kernel *kernel = gb_chosen(gk_kernel_of(op));
  const gb_program *p = kernel->program;
  const int inputs = kernel->inputs;
  int tensors = inputs;
  while (p->tables[tensors - inputs]) ++tensors;
  gb_constant constants[tensors + 1];
  OrtStatus *status = NULL;
  memset(constants, 0, sizeof constants);
  for (int k = 0; k < 2 * p->steps_count && !status; ++k)
    status = gb_take(kernel, api, info, k % 2 ? p->steps[k / 2].bias : p->steps[k / 2].weights,
                     constants);
  for (const gb_unpacking *u = p->unpackings; u->packed >= 0 && !status; ++u) {
    status = gb_take(kernel, api, info, u->scale, constants);
    if (!status) status = gb_take(kernel, api, info, u->zero, constants);
  }
  if (status) return status;
  *made = gb_new(kernel, constants);
  return *made ? NULL : GK_ORT_CreateStatus(api)(GK_FAIL, "no memory for the weights of a kernel");
}

void gb_destroy(void *state) { gb_free(state); }

OrtStatus *gb_compute(void *self, OrtKernelContext *context) {
  gb_state *state = self;
  const gk_kernel *kernel = state->kernel;
  const gb_program *p = kernel->program;
  const int inputs = kernel->inputs, outputs = kernel->outputs;
  int64_t dims[inputs + 1][4];
  const int64_t *input_sizes[inputs + 1];
  const float *in[inputs + 1];
  float *out[outputs + 1];
  gb_size sizes[p->storages_count + 1];
  OrtStatus *status = NULL;
  int fits = 1;
  for (int k = 0; k < p->steps_count && !status; ++k) {
    const gb_step *s = &p->steps[k];
    int read = -1;
    if (s->op == GB_LOAD) read = s->in;
    if (s->tensor >= 0 && s->tensor < inputs) read = s->tensor;
    if (read >= 0)
      status = gk_input(context, (size_t)read, kernel->ranks[read], dims[read], &input_sizes[read],
                        (char **)(uintptr_t)&in[read], &fits);
  }
  if (status) return status;
  if (!fits || gb_sizes(kernel, input_sizes, sizes)) return gk_otherwise(kernel, context);
  for (int k = 0; k < p->steps_count && !status; ++k) {
    const gb_step *s = &p->steps[k];
    if (s->op != GB_STORE) continue;
    int64_t made[4];
    gb_stored(kernel, s, sizes, made);
    OrtValue *value;
    status = GK_ORT_GetOutput(gk_api)(context, (size_t)s->out, made,
                                      (size_t)kernel->ranks[inputs + s->out], &value);
    if (!status) status = GK_ORT_GetData(gk_api)(value, (void **)(uintptr_t)&out[s->out]);
  }
  int failed = 0;
  if (!status) status = gb_run(state, sizes, input_sizes, in, out, gk_share, context, &failed);
  return status || !failed
             ? status
             : GK_ORT_CreateStatus(gk_api)(GK_FAIL, "no memory for the images of a kernel");
}
