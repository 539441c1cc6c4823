from fusionc.passes.areas._area_pass import AreaPass


class AutomaticUbFusion(AreaPass):
    """Connected operators of any kind become one area, a group that a generated kernel computes.

    before   connected elementwise operators, broadcasts and operators that move elements
    after    one operator of the domain fusionc.gk: a model-local function, and a compiled kernel
             next to the model
    refuses  single operators; operators between convolutions, or between Transposes that undo each
             other, because onnxruntime computes them in another layout; operators that compute
             shapes; operators that onnxruntime computes or fuses when it loads the model
    never    anything without --enable_graph_kernel; areas of a kind that has its own pass
    algebra  the kernel applies the same operators, one element after another
    source   CANN's AutomaticUbFusion; the split patterns of MindSpore's graph kernel fusion
    """
