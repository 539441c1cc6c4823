from fusionc.passes.areas._area_pass import AreaPass


class TbeEltwiseFusionPass(AreaPass):
    """Connected elementwise operators become one area.

    before   elementwise operators, comparisons, logic, Cast, Clip, Where; one result
    after    one operator of the domain fusionc.gk: a model-local function, and a kernel beside the
             model
    refuses  what AutomaticUbFusion refuses
    never    without --enable_graph_kernel
    algebra  the kernel computes what the operators compute, one element after the other
    source   CANN's TbeEltwiseFusionPass
    """

    aliases = ("TbeEltwiseCastFusionPass", "TbeDynamicElemwiseBroadcastFusionPass")
