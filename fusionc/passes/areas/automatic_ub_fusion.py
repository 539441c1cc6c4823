from fusionc.passes.areas._area_pass import AreaPass


class AutomaticUbFusion(AreaPass):
    """Connected operators of any kind become one area, which a generated kernel computes.

    before   elementwise operators, broadcasts and operators that move elements, connected
    after    one operator of the domain fusionc.gk: a model-local function, and a kernel beside the
             model
    refuses  one operator alone; what lies between convolutions, or between Transposes that undo one
             another, in another layout; what computes shapes, or what onnxruntime computes or fuses
             when it loads the model
    never    without --enable_graph_kernel; areas of the kinds that have a pass of their own
    algebra  the kernel computes what the operators compute, one element after the other
    source   CANN's AutomaticUbFusion; the split patterns of MindSpore's graph kernel fusion
    """
