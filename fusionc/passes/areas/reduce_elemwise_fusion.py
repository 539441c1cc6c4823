from fusionc.passes.areas._area_pass import AreaPass


class TbeReduceElemwiseFusionPass(AreaPass):
    """A reduction and the operators around it become one area.

    before   Reduce operators, Softmax, LayerNormalization or RMSNormalization with others; one
             result
    after    one operator of the domain fusionc.gk: a model-local function, and a kernel beside the
             model
    refuses  what AutomaticUbFusion refuses
    never    without --enable_graph_kernel
    algebra  the kernel adds up in another order
    source   CANN's TbeReduceElemwiseFusionPass
    """

    aliases = ("TbeDynamicElemwiseReduceFusionPass",)
