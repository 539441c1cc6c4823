/* The part of onnxruntime's C interface that kernels use. It is declared here, because
 * onnxruntime's wheel does not contain headers.
 *
 * OrtApi is a table of functions to which newer versions only append, so an entry is known by its
 * position. GK_API is the version of the table that is requested, GK_OPERATOR that of OrtCustomOp.
 * Since version GK_API_REFERENCE, the table has an entry that reads sizes without a copy. */
#include <stddef.h>
#include <stdint.h>

enum {
  GK_API = 20,
  GK_API_REFERENCE = 24,
  GK_OPERATOR = 20,
  GK_FAIL = 1,
  GK_INVALID_ARGUMENT = 2,
  GK_ERRORS = 3,
  GK_SILENT = 4
};

typedef struct OrtStatus OrtStatus;
typedef struct OrtKernelInfo OrtKernelInfo;
typedef struct OrtKernelContext OrtKernelContext;
typedef struct OrtValue OrtValue;
typedef struct OrtShape OrtShape; /* OrtTensorTypeAndShapeInfo */
typedef struct OrtSessionOptions OrtSessionOptions;
typedef struct OrtDomain OrtDomain; /* OrtCustomOpDomain */
typedef struct OrtEnv OrtEnv;
typedef struct OrtSession OrtSession;
typedef void *const OrtApi; /* the first entry of the table */

typedef struct {
  OrtApi *(*GetApi)(uint32_t version); /* returns NULL if onnxruntime is older than the version */
  const char *(*GetVersionString)(void);
} OrtApiBase;

#define GK_ORT_CreateStatus(api) ((OrtStatus * (*)(int code, const char *message))(api)[0])
#define GK_ORT_CreateEnv(api) ((OrtStatus * (*)(int level, const char *name, OrtEnv **))(api)[3])
#define GK_ORT_CreateSession(api)                                                               \
  ((OrtStatus * (*)(const OrtEnv *, const void *model, size_t bytes, const OrtSessionOptions *, \
                    OrtSession **))(api)[8])
#define GK_ORT_Run(api)                                                                \
  ((OrtStatus * (*)(OrtSession *, const void *options, const char *const *inputs,      \
                    const OrtValue *const *, size_t count, const char *const *outputs, \
                    size_t outputs_count, OrtValue **))(api)[9])
#define GK_ORT_CreateOptions(api) ((OrtStatus * (*)(OrtSessionOptions **))(api)[10])
#define GK_ORT_SetSeverity(api) ((OrtStatus * (*)(OrtSessionOptions *, int))(api)[22])
#define GK_ORT_SetThreads(api) ((OrtStatus * (*)(OrtSessionOptions *, int))(api)[24])
#define GK_ORT_CreateDomain(api) ((OrtStatus * (*)(const char *name, OrtDomain **))(api)[26])
#define GK_ORT_AddOperator(api) ((OrtStatus * (*)(OrtDomain *, const OrtCustomOp *))(api)[27])
#define GK_ORT_AddDomain(api) ((OrtStatus * (*)(OrtSessionOptions *, OrtDomain *))(api)[28])
#define GK_ORT_GetData(api) ((OrtStatus * (*)(OrtValue *, void **))(api)[51])
#define GK_ORT_GetRank(api) ((OrtStatus * (*)(const OrtShape *, size_t *))(api)[61])
#define GK_ORT_GetDimensions(api) \
  ((OrtStatus * (*)(const OrtShape *, int64_t *, size_t rank))(api)[62])
#define GK_ORT_GetShape(api) ((OrtStatus * (*)(const OrtValue *, OrtShape **))(api)[65])
#define GK_ORT_GetInput(api) \
  ((OrtStatus * (*)(const OrtKernelContext *, size_t, const OrtValue **))(api)[90])
#define GK_ORT_GetOutput(api) \
  ((OrtStatus *               \
    (*)(OrtKernelContext *, size_t, const int64_t *, size_t rank, OrtValue **))(api)[91])
#define GK_ORT_ReleaseSession(api) ((void (*)(OrtSession *))(api)[95])
#define GK_ORT_ReleaseValue(api) ((void (*)(OrtValue *))(api)[96])
#define GK_ORT_ReleaseOptions(api) ((void (*)(OrtSessionOptions *))(api)[100])
#define GK_ORT_ReleaseShape(api) ((void (*)(OrtShape *))(api)[99])
#define GK_ORT_GetConstant(api) \
  ((OrtStatus * (*)(const OrtKernelInfo *, size_t, int *is_constant, const OrtValue **))(api)[249])
#define GK_ORT_ParallelFor(api)                                                       \
  ((OrtStatus * (*)(const OrtKernelContext *, void (*)(void *, size_t), size_t total, \
                    size_t batches, void *))(api)[274])
#define GK_ORT_GetShapeReference(api) \
  ((OrtStatus * (*)(const OrtValue *, int *type, const int64_t **dims, size_t *rank))(api)[414])

typedef struct OrtCustomOp OrtCustomOp;
struct OrtCustomOp {
  uint32_t version;
  void *(*CreateKernel)(const OrtCustomOp *, OrtApi *, const OrtKernelInfo *);
  const char *(*GetName)(const OrtCustomOp *);
  const char *(*GetExecutionProviderType)(const OrtCustomOp *);
  int (*GetInputType)(const OrtCustomOp *, size_t);
  size_t (*GetInputTypeCount)(const OrtCustomOp *);
  int (*GetOutputType)(const OrtCustomOp *, size_t);
  size_t (*GetOutputTypeCount)(const OrtCustomOp *);
  void (*KernelCompute)(void *, OrtKernelContext *);
  void (*KernelDestroy)(void *);
  int (*GetInputCharacteristic)(const OrtCustomOp *, size_t);
  int (*GetOutputCharacteristic)(const OrtCustomOp *, size_t);
  int (*GetInputMemoryType)(const OrtCustomOp *, size_t);
  int (*GetVariadicInputMinArity)(const OrtCustomOp *);
  int (*GetVariadicInputHomogeneity)(const OrtCustomOp *);
  int (*GetVariadicOutputMinArity)(const OrtCustomOp *);
  int (*GetVariadicOutputHomogeneity)(const OrtCustomOp *);
  OrtStatus *(*CreateKernelV2)(const OrtCustomOp *, OrtApi *, const OrtKernelInfo *, void **kernel);
  OrtStatus *(*KernelComputeV2)(void *, OrtKernelContext *);
  OrtStatus *(*InferOutputShape)(const OrtCustomOp *, void *);
  int (*GetStartVersion)(const OrtCustomOp *);
  int (*GetEndVersion)(const OrtCustomOp *);
  size_t (*GetMayInplace)(int **, int **);
  void (*ReleaseMayInplace)(int *, int *);
  size_t (*GetAliasMap)(int **, int **);
  void (*ReleaseAliasMap)(int *, int *);
};
