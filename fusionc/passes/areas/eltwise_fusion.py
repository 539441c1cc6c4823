from fusionc.passes.areas._area_pass import AreaPass


class TbeEltwiseFusionPass(AreaPass):
    """Connected elementwise operators become one area.

    before   elementwise operators, comparisons, logic, Cast, Clip and Where with one result
    after    one operator of the domain fusionc.gk: a model-local function, and a compiled kernel
             next to the model
    refuses  everything that AutomaticUbFusion refuses
    never    anything without --enable_graph_kernel
    algebra  the kernel applies the same operators, one element after another
    source   CANN's TbeEltwiseFusionPass
    """

    aliases = ("TbeEltwiseCastFusionPass", "TbeDynamicElemwiseBroadcastFusionPass")
