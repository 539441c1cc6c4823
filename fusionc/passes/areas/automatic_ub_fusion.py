from fusionc.passes.areas._area_pass import AreaPass


class AutomaticUbFusion(AreaPass):
    """Connected operators of any kind become one area, which a generated kernel computes.

    before   elementwise operators, broadcasts and operators that move elements, connected
    after    one operator of the domain fusionc.gk: a model-local function, and a kernel next to the
             model
    refuses  single operators; operators between convolutions, or between Transposes that undo each
             other, which onnxruntime computes in another layout; operators that compute shapes, or
             that onnxruntime computes or fuses when it loads the model
    never    without --enable_graph_kernel; areas of kinds with their own pass
    algebra  the kernel computes the same as the operators, one element after another
    source   CANN's AutomaticUbFusion; the split patterns of MindSpore's graph kernel fusion
    """
