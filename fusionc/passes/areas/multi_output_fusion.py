from fusionc.passes.areas._area_pass import AreaPass


class TbeMultiOutputFusionPass(AreaPass):
    """Connected operators with several results become one area.

    before   connected operators of any kind, if nodes outside the area use several of their results
    after    one operator of the domain fusionc.gk: a model-local function, and a compiled kernel
             next to the model
    refuses  everything that AutomaticUbFusion refuses
    never    anything without --enable_graph_kernel
    algebra  the kernel applies the same operators, one element after another
    source   CANN's TbeMultiOutputFusionPass
    """
