from fusionc.passes.areas._area_pass import AreaPass


class TbeReduceElemwiseFusionPass(AreaPass):
    """A reduction and the operators before and after it become one area.

    before   a Reduce operator, Softmax, LayerNormalization or RMSNormalization and connected
             operators, with one result
    after    one operator of the domain fusionc.gk: a model-local function, and a compiled kernel
             next to the model
    refuses  everything that AutomaticUbFusion refuses
    never    anything without --enable_graph_kernel
    algebra  the kernel applies the same operators, but sums in another order
    source   CANN's TbeReduceElemwiseFusionPass
    """

    aliases = ("TbeDynamicElemwiseReduceFusionPass",)
