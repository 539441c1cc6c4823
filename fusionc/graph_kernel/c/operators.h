/* The registration of the custom operators. */
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
    for (size_t i = 0; i < gk_operators_count && !status; ++i)
      status = GK_ORT_AddOperator(api)(domain, &gk_operators[i].operator);
    if (status) return status;
    gk_domain = domain;
  }
  return GK_ORT_AddDomain(api)(options, domain);
}
