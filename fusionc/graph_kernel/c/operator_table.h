/* The custom operators of the library: one for each kernel. GK_KERNELS and GK_PROGRAMS list the
 * kernels. The operators are constant, because one session may register the library while another
 * one runs. */
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
const gk_operator gk_operators[] = {GK_KERNELS(GK_OPERATOR_OF) GK_PROGRAMS(GB_OPERATOR_OF)};
const size_t gk_operators_count = sizeof gk_operators / sizeof *gk_operators;
