/* How a kernel runs with sizes that it does not support: the operators of its area run in a
 * separate session. This gives the same result, or the same error, as the model without kernels. */

#include <stdatomic.h>
#include <stdio.h>

static OrtApi *gk_api;
static int gk_has_reference; /* whether onnxruntime's table is GK_API_REFERENCE or newer */

/* The session for the operators. It is the same for all callers, is created when it is first
 * needed, and is never released. */
static OrtStatus *gk_session(gk_operators_of *otherwise, OrtSession **session) {
  OrtEnv *environment =
      NULL; /* onnxruntime has one for the process; it exists as long as something uses it */
  OrtSessionOptions *options = NULL;
  void *none = NULL;
  *session = otherwise->session;
  if (*session) return NULL;
  OrtStatus *status = GK_ORT_CreateEnv(gk_api)(GK_ERRORS, "fusionc", &environment);
  if (!status) status = GK_ORT_CreateOptions(gk_api)(&options);
  if (!status) status = GK_ORT_SetThreads(gk_api)(options, 1);
  if (!status)
    status = GK_ORT_SetSeverity(gk_api)(options, GK_SILENT); /* the caller reports errors */
  if (!status)
    status = GK_ORT_CreateSession(gk_api)(environment, otherwise->model, otherwise->bytes, options,
                                          session);
  if (options) GK_ORT_ReleaseOptions(gk_api)(options);
  if (!status && !atomic_compare_exchange_strong(&otherwise->session, &none, (void *)*session)) {
    GK_ORT_ReleaseSession(gk_api)(*session); /* another thread was faster */
    *session = none;
  }
  return status;
}

static size_t gk_bytes_of(int type) {
  switch (type) {
  case 1:
  case 6:
  case 12:
    return 4; /* float32, int32, uint32 */
  case 7:
  case 11:
  case 13:
    return 8; /* int64, float64, uint64 */
  case 4:
  case 5:
  case 10:
  case 16:
    return 2; /* uint16, int16, float16, bfloat16 */
  default:
    return 1;
  }
}

/* Copies a result of the operators to an output of the kernel. */
static OrtStatus *gk_hand_out(OrtKernelContext *context, size_t k, OrtValue *made, int type) {
  OrtShape *shape;
  OrtValue *value;
  size_t rank, count = 1;
  char *from, *to;
  OrtStatus *status = GK_ORT_GetShape(gk_api)(made, &shape);
  if (status) return status;
  status = GK_ORT_GetRank(gk_api)(shape, &rank);
  int64_t sizes[rank + 1];
  if (!status) status = GK_ORT_GetDimensions(gk_api)(shape, sizes, rank);
  GK_ORT_ReleaseShape(gk_api)(shape);
  if (!status) status = GK_ORT_GetOutput(gk_api)(context, k, sizes, rank, &value);
  if (!status) status = GK_ORT_GetData(gk_api)(value, (void **)&to);
  if (!status) status = GK_ORT_GetData(gk_api)(made, (void **)&from);
  for (size_t i = 0; i < rank && !status; ++i) count *= (size_t)sizes[i];
  if (!status && count) memcpy(to, from, count * gk_bytes_of(type));
  return status;
}

static OrtStatus *gk_otherwise(const gk_kernel *kernel, OrtKernelContext *context) {
  const size_t inputs = (size_t)kernel->inputs, outputs = (size_t)kernel->outputs;
  const OrtValue *in[inputs + 1];
  OrtValue *out[outputs + 1];
  char names[inputs + outputs][8];
  const char *named[inputs + outputs];
  OrtSession *session;
  OrtStatus *status = gk_session(kernel->otherwise, &session);
  memset(out, 0, sizeof out);
  for (size_t i = 0; i < inputs + outputs; ++i) {
    snprintf(names[i], sizeof *names, "p%d", (int)i);
    named[i] = names[i];
  }
  for (size_t i = 0; i < inputs && !status; ++i)
    status = GK_ORT_GetInput(gk_api)(context, i, &in[i]);
  if (!status)
    status = GK_ORT_Run(gk_api)(session, NULL, named, in, inputs, named + inputs, outputs, out);
  for (size_t k = 0; k < outputs; ++k) {
    if (!status) status = gk_hand_out(context, k, out[k], kernel->types[inputs + k]);
    if (out[k]) GK_ORT_ReleaseValue(gk_api)(out[k]);
  }
  return status;
}
