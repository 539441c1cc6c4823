from fusionc.passes.areas._area_pass import AreaPass


class TbeEltwiseFusionPass(AreaPass):
    """Connected elementwise operators become one area.

    before   elementwise operators, comparisons, logic, Cast, Clip, Where; one result
    after    one operator of the domain fusionc.gk: a model-local function, and a kernel next to the
             model
    refuses  the same as AutomaticUbFusion
    never    without --enable_graph_kernel
    algebra  the kernel computes the same as the operators, one element after another
    source   CANN's TbeEltwiseFusionPass
    """

    aliases = ("TbeEltwiseCastFusionPass", "TbeDynamicElemwiseBroadcastFusionPass")
