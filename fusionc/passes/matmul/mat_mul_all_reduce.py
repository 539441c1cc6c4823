from fusionc.rewrite import UBFusionPass


class MatMulAllReduce(UBFusionPass):
    """Never matches: ONNX has no operator that several devices compute together.

    before   AllReduce(x·W), the sum of the products of all devices
    after    one operator that sends finished parts of the product while it computes the others
    refuses  nothing: the standard has no AllReduce, and onnxruntime's CPU packages lack theirs
    algebra  the definition of AllReduce
    source   MindSpore's MatMulAllReduce; the name exists so that MindSpore's switch files load
    """

    default = "off"
    never_matches = (
        "ONNX has no collective operators, and this one joins a product with an AllReduce"
    )
