/* The custom operators of the library: one for each kernel. */
#ifndef GK_PROGRAMS
#define GK_PROGRAMS(each)
#endif

/* The operators are constants, because one session may register the library while another session
 * runs. */
#define GK_OPERATOR_WITH(kernel, create, compute, destroy) \
  {{                                                       \
       .version = GK_OPERATOR,                             \
       .GetName = gk_name,                                 \
       .GetExecutionProviderType = gk_provider,            \
       .GetInputType = gk_input_type,                      \
       .GetInputTypeCount = gk_inputs,                     \
       .GetOutputType = gk_output_type,                    \
       .GetOutputTypeCount = gk_outputs,                   \
       .KernelDestroy = destroy,                           \
       .GetInputCharacteristic = gk_nothing_of,            \
       .GetOutputCharacteristic = gk_nothing_of,           \
       .GetInputMemoryType = gk_nothing_of,                \
       .CreateKernelV2 = create,                           \
       .KernelComputeV2 = compute,                         \
       .GetStartVersion = gk_version,                      \
       .GetEndVersion = gk_version,                        \
   },                                                      \
   &kernel},
#define GK_OPERATOR_OF(kernel) GK_OPERATOR_WITH(kernel, gk_create, gk_compute, gk_destroy)
#define GB_OPERATOR_OF(kernel) GK_OPERATOR_WITH(kernel, gb_create, gb_compute, gb_destroy)
static const gk_operator gk_operators[] = {GK_KERNELS(GK_OPERATOR_OF) GK_PROGRAMS(GB_OPERATOR_OF)};

static _Atomic(OrtDomain *)
    gk_domain; /* one for all sessions, never released: session options keep pointers to it */

__attribute__((visibility("default"))) OrtStatus *RegisterCustomOps(OrtSessionOptions *,
                                                                    const OrtApiBase *);

/* onnxruntime calls this function when the library is registered, once for each session. */
OrtStatus *RegisterCustomOps(OrtSessionOptions *options, const OrtApiBase *base) {
  OrtDomain *domain = gk_domain;
  gk_has_reference = atoi(base->GetVersionString() + sizeof "1." - 1) >= GK_API_REFERENCE;
  OrtApi *api = base->GetApi(gk_has_reference ? GK_API_REFERENCE : GK_API);
  if (!api) /* this version lacks the table for a status; an older one has that entry at the same
               position */
    return GK_ORT_CreateStatus(base->GetApi(1))(GK_FAIL,
                                                "these kernels need onnxruntime 1.20 or newer");
  gk_api = api; /* the same for every session */
  if (!domain) {
    OrtStatus *status = GK_ORT_CreateDomain(api)("fusionc.gk", &domain);
    for (size_t i = 0; i < sizeof gk_operators / sizeof *gk_operators && !status; ++i)
      status = GK_ORT_AddOperator(api)(domain, &gk_operators[i].operator);
    if (status) return status;
    gk_domain = domain;
  }
  return GK_ORT_AddDomain(api)(options, domain);
}
