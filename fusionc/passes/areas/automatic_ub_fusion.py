from fusionc.passes.areas._area_pass import AreaPass


class AutomaticUbFusion(AreaPass):
    """Connected operators of any kind become one area, which a generated kernel computes.

    before   connected elementwise operators, broadcasts and operators that move elements
    after    one operator of the domain fusionc.gk: a model-local function, and a compiled kernel
             next to the model
    refuses  single operators; operators that onnxruntime computes in another layout, because they
             are between convolutions or between Transposes that undo each other; operators that
             compute shapes; operators that onnxruntime computes or fuses when it loads the model
    never    without --enable_graph_kernel; areas of a kind that has its own pass
    algebra  the kernel applies the same operators, one element after another
    source   CANN's AutomaticUbFusion; the split patterns of MindSpore's graph kernel fusion
    """
