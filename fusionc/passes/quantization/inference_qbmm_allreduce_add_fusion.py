from fusionc.rewrite import UBFusionPass


class InferenceQbmmAllreduceAddFusionPass(UBFusionPass):
    """Never matches: ONNX lacks operators that several devices run together, such as AllReduce.

    before   AllReduce(a quantized product) + bias
    after    AllReduce(the product with its bias); the bias is 0 on all devices except one
    refuses  nothing: the standard operators have no AllReduce, and onnxruntime's own is not in its
             CPU packages
    algebra  the sum over all devices includes the bias once
    source   MindSpore's inference_qbmm_allreduce_add_fusion; it is listed so that MindSpore's
             switches are understood
    """

    default = "off"
    aliases = ("inference_qbmm_allreduce_add_fusion",)
    never_matches = (
        "ONNX has no collective operators such as AllReduce, before which this pass moves a bias"
    )
