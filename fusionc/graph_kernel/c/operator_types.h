/* A custom operator, and the functions that onnxruntime calls for it. Those that begin with gb_ are
 * for kernels in a blocked layout. */
typedef struct {
  OrtCustomOp operator;
  const gk_kernel *kernel;
} gk_operator;

extern const gk_operator gk_operators[];
extern const size_t gk_operators_count;

const char *gk_name(const OrtCustomOp *);
const char *gk_provider(const OrtCustomOp *);
size_t gk_inputs(const OrtCustomOp *);
size_t gk_outputs(const OrtCustomOp *);
int gk_input_type(const OrtCustomOp *, size_t);
int gk_output_type(const OrtCustomOp *, size_t);
int gk_nothing_of(const OrtCustomOp *, size_t);
int gk_version(const OrtCustomOp *);
OrtStatus *gk_create(const OrtCustomOp *, OrtApi *, const OrtKernelInfo *, void **kernel);
OrtStatus *gk_compute(void *kernel, OrtKernelContext *);
void gk_destroy(void *kernel);
OrtStatus *gb_create(const OrtCustomOp *, OrtApi *, const OrtKernelInfo *, void **state);
OrtStatus *gb_compute(void *state, OrtKernelContext *);
void gb_destroy(void *state);
