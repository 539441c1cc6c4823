from fusionc.passes.areas._area_pass import AreaPass


class TbeReduceElemwiseFusionPass(AreaPass):
    """A reduction and the operators around it become one area.

    before   Reduce operators, Softmax, LayerNormalization or RMSNormalization with others; one
             result
    after    one operator of the domain fusionc.gk: a model-local function, and a kernel next to the
             model
    refuses  the same as AutomaticUbFusion
    never    without --enable_graph_kernel
    algebra  the kernel sums in another order
    source   CANN's TbeReduceElemwiseFusionPass
    """

    aliases = ("TbeDynamicElemwiseReduceFusionPass",)
