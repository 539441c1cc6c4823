from fusionc.rewrite import UBFusionPass


class MatMulAllReduce(UBFusionPass):
    """Never matches: ONNX has no operator that several devices run together.

    before   AllReduce(x·W), the sum of the products of all devices
    after    one operator that sends parts of the product while it computes the others
    refuses  nothing: the standard operators have no AllReduce, and onnxruntime's own is not in its
             CPU packages
    algebra  the definition of AllReduce
    source   MindSpore's MatMulAllReduce; it is listed so that MindSpore's switches are understood
    """

    default = "off"
    never_matches = (
        "ONNX has no collective operators, and this one joins a product with an AllReduce"
    )
