from fusionc.passes.areas._area_pass import AreaPass


class TbeMultiOutputFusionPass(AreaPass):
    """Connected operators with several results become one area.

    before   operators of any kind, connected, more than one of whose values is needed elsewhere
    after    one operator of the domain fusionc.gk: a model-local function, and a kernel beside the
             model
    refuses  what AutomaticUbFusion refuses
    never    without --enable_graph_kernel
    algebra  the kernel computes what the operators compute, one element after the other
    source   CANN's TbeMultiOutputFusionPass
    """
