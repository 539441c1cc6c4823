from fusionc.rewrite import UBFusionPass


class MatMulAllReduce(UBFusionPass):
    """Never matches: ONNX lacks operators that several devices compute together, such as AllReduce.

    before   AllReduce(x·W), the sum of the products of all devices
    after    one operator that sends finished parts of the product while it computes the others
    refuses  nothing: the standard operators have no AllReduce, and onnxruntime's own is not in its
             CPU packages
    algebra  the definition of AllReduce
    source   MindSpore's MatMulAllReduce; the name exists so that MindSpore's switch files load
    """

    default = "off"
    never_matches = (
        "ONNX has no collective operators such as AllReduce, with which this pass joins a product"
    )
