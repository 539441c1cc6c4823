from fusionc.passes.areas._area_pass import AreaPass


class TbeMultiOutputFusionPass(AreaPass):
    """Connected operators with several results become one area.

    before   connected operators of any kind, with several values that are needed elsewhere
    after    one operator of the domain fusionc.gk: a model-local function, and a kernel next to the
             model
    refuses  the same as AutomaticUbFusion
    never    without --enable_graph_kernel
    algebra  the kernel computes the same as the operators, one element after another
    source   CANN's TbeMultiOutputFusionPass
    """
