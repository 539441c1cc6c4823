"""The forms of Tensorflow, by tf2onnx."""

from __future__ import annotations

import math
import os
from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

os.environ["TF_CPP_MIN_LOG_LEVEL"] = "3"
import numpy as np
import tensorflow as tf
import tf2onnx
from onnx import ModelProto

RANDOM = np.random.default_rng(0)
VECTOR = [(2, 6, 8)]
IMAGE = [(2, 8, 8, 4)]


def weight(*shape: int) -> Any:
    """A NumPy array, which becomes a constant of the exported graph."""
    return RANDOM.uniform(0.5, 1.5, shape).astype(np.float32)


W = weight(8, 8)
B = weight(8)
G = weight(8)
WIDE = weight(8, 24)
K = weight(3, 3, 4, 4)
D = weight(3, 3, 4, 1)
C = weight(4)


def layer_norm(x: Any) -> Any:
    mean, variance = tf.nn.moments(x, [-1], keepdims=True)
    return tf.nn.batch_normalization(x, mean, variance, B, G, 1e-5)


def layer_norm_written(x: Any) -> Any:
    d = x - tf.reduce_mean(x, -1, keepdims=True)
    return d * tf.math.rsqrt(tf.reduce_mean(tf.square(d), -1, keepdims=True) + 1e-5) * G + B


def heads(x: Any) -> Any:
    return tf.transpose(tf.reshape(x, [-1, 6, 2, 4]), [0, 2, 1, 3])


def attention(x: Any, mask: Any = None) -> Any:
    q, k, v = (heads(tf.matmul(x, weight(8, 8)) + B) for _ in range(3))
    scores = tf.matmul(q, k, transpose_b=True) / 2.0
    result = tf.matmul(tf.nn.softmax(scores if mask is None else scores + mask), v)
    return tf.reshape(tf.transpose(result, [0, 2, 1, 3]), [-1, 6, 8])


def conv(x: Any, k: Any = K, **more: Any) -> Any:
    return tf.nn.conv2d(x, k, **{"strides": 1, "padding": "SAME", **more})


def batch_norm(x: Any) -> Any:
    return tf.nn.batch_normalization(x, C, C, C, C, 1e-3)


def halves(x: Any) -> Any:
    a, b = tf.split(x, 2, -1)
    return a * tf.sigmoid(b)


FORMS: list[tuple[str, str, Callable[..., Any], list[tuple[int, ...]]]] = [
    ("GeluFusionPass", "gelu tanh", lambda x: tf.nn.gelu(x, approximate=True), VECTOR),
    ("GeluFusionPass", "gelu as erf", lambda x: x * 0.5 * (1.0 + tf.math.erf(x / math.sqrt(2.0))), VECTOR),
    ("QuickGeluFusionPass", "swish", tf.nn.silu, VECTOR),
    ("QuickGeluFusionPass", "swish as sigmoid", lambda x: x * tf.sigmoid(x), VECTOR),
    ("MishFusionPass", "mish", lambda x: x * tf.tanh(tf.nn.softplus(x)), VECTOR),
    ("SoftplusFusionPass", "softplus as log", lambda x: tf.math.log(1 + tf.exp(x)), VECTOR),
    ("HardSwishFusionPass", "hard swish", lambda x: x * tf.nn.relu6(x + 3) / 6, VECTOR),
    ("HardSwishFusionPass", "hard swish times", lambda x: x * tf.nn.relu6(x + 3.0) * (1.0 / 6.0), VECTOR),
    ("HardSigmoidFusionPass", "hard sigmoid", lambda x: tf.clip_by_value(0.2 * x + 0.5, 0, 1), VECTOR),
    ("HardSigmoidFusionPass", "hard sigmoid as relu6", lambda x: tf.nn.relu6(x + 3) / 6, VECTOR),
    ("ClipFusionPass", "relu6", tf.nn.relu6, VECTOR),
    ("ClipFusionPass", "clipped twice", lambda x: tf.minimum(tf.maximum(x, -1.0), 2.0), VECTOR),
    ("ClipFusionPass", "where above", lambda x: tf.where(x > 6.0, 6.0, x), VECTOR),
    ("ClipFusionPass", "abs of relu", lambda x: tf.abs(tf.nn.relu(x)), VECTOR),
    ("EluSeluCeluFusionPass", "elu", lambda x: tf.where(x > 0, x, tf.exp(x) - 1.0), VECTOR),
    ("SoftmaxSmallOpFusionPass", "softmax as exp", lambda x: tf.exp(x) / tf.reduce_sum(tf.exp(x), -1, keepdims=True), VECTOR),
    ("SoftmaxSmallOpFusionPass", "softmax as exp minus max", lambda x: (lambda e: e / tf.reduce_sum(e, -1, keepdims=True))(tf.exp(x - tf.reduce_max(x, -1, keepdims=True))), VECTOR),
    ("SoftmaxSmallOpFusionPass", "log softmax", lambda x: tf.math.log(tf.nn.softmax(x)), VECTOR),
    ("LayerNormFusionPass", "layer norm by moments", layer_norm, VECTOR),
    ("LayerNormFusionPass", "layer norm written", layer_norm_written, VECTOR),
    ("RmsNormFusionPass", "rms norm", lambda x: x * tf.math.rsqrt(tf.reduce_mean(x * x, -1, keepdims=True) + 1e-6) * G, VECTOR),
    ("L2NormFusionPass", "l2 normalize", lambda x: tf.math.l2_normalize(x, -1), VECTOR),
    ("L2NormFusionPass", "divided by norm", lambda x: x / tf.norm(x, axis=-1, keepdims=True), VECTOR),
    ("AddLayerNormFusionPass", "residual and layer norm", lambda x, y: layer_norm_written(x + y), VECTOR * 2),
    ("ConvBatchnormFusionPass", "conv, batch norm", lambda x: batch_norm(conv(x)), IMAGE),
    ("ConvBatchnormFusionPass", "conv, bias, batch norm", lambda x: batch_norm(tf.nn.bias_add(conv(x), C)), IMAGE),
    ("TbeConvElemwiseFusionPass", "conv, bias, relu", lambda x: tf.nn.relu(tf.nn.bias_add(conv(x), C)), IMAGE),
    ("TbeConvElemwiseFusionPass", "conv, relu6", lambda x: tf.nn.relu6(conv(x)), IMAGE),
    ("TbeConvElemwiseFusionPass", "depthwise, relu6", lambda x: tf.nn.relu6(tf.nn.depthwise_conv2d(x, D, [1, 1, 1, 1], "SAME")), IMAGE),
    ("TbeConvDoubleInFusionPass", "conv, add, relu", lambda x: tf.nn.relu(conv(x) + x), IMAGE),
    ("AABiasaddConvFusion", "conv and bias", lambda x: conv(x) + C, IMAGE),
    ("ConvScaleFusionPass", "conv and scale", lambda x: conv(x) * C, IMAGE),
    ("PadConv2dFusionPass", "pad, conv", lambda x: conv(tf.pad(x, [[0, 0], [1, 1], [1, 1], [0, 0]]), padding="VALID"), IMAGE),
    ("SpaceToBatchConv2dBatchToSpacePass", "dilated conv", lambda x: tf.batch_to_space(conv(tf.space_to_batch(x, [2, 2], [[2, 2], [2, 2]]), padding="VALID"), [2, 2], [[0, 0], [0, 0]]), IMAGE),
    ("DepthToSpaceFusionPass", "depth to space", lambda x: tf.nn.depth_to_space(x, 2), IMAGE),
    ("SpaceToDepthFusionPass", "space to depth", lambda x: tf.nn.space_to_depth(x, 2), IMAGE),
    ("MatMulBiasAddFusionPass", "dense of a matrix", lambda x: tf.matmul(x, W) + B, [(2, 8)]),
    ("MatMulBiasAddFusionPass", "dense and relu", lambda x: tf.nn.relu(tf.nn.bias_add(tf.matmul(x, W), B)), [(2, 8)]),
    ("SameInputMatMulPass", "three products of one input", lambda x: [tf.matmul(x, weight(8, 8)) for _ in range(3)], VECTOR),
    ("TransposeScaleMatMulFusionPass", "transposed and scaled", lambda x, y: tf.matmul(x, y, transpose_b=True) * 0.5, VECTOR * 2),
    ("EinsumPass", "einsum of dense", lambda x: tf.einsum("bid,do->bio", x, W), VECTOR),
    ("EinsumPass", "einsum of heads", lambda x, y: tf.einsum("bhid,bhjd->bhij", x, y), [(2, 2, 6, 4)] * 2),
    ("ZSplitVDFusionPassV2", "halves by slices", lambda x: x[..., :4] * tf.sigmoid(x[..., 4:]), VECTOR),
    ("ZSplitVDFusionPassV2", "three slices", lambda x: [tf.exp(x[:, :, :2]), tf.tanh(x[:, :, 2:5]), tf.nn.relu(x[:, :, 5:])], VECTOR),
    ("ZSplitVDFusionPassV2", "slices of the middle axis", lambda x: tf.exp(x[:, :2]) + tf.tanh(x[:, 2:4]) * x[:, 4:], VECTOR),
    ("ZSplitVDFusionPassV2", "unpacked by index", lambda x: (lambda p: p[:, :, 0] * p[:, :, 1] + p[:, :, 2])(tf.reshape(tf.matmul(x, WIDE), [-1, 6, 3, 8])), VECTOR),
    ("UpstreamGatherPass", "logits of the last token", lambda x: tf.matmul(x, weight(64, 96))[:, -1, :], [(2, 32, 64)]),
    ("UpstreamGatherPass", "the first token of a function", lambda x: tf.tanh(tf.matmul(x, weight(64, 96)))[:, 0], [(2, 32, 64)]),
    ("GatherFusionPass", "one element by a slice", lambda x: tf.exp(x[:, 2]), VECTOR),
    ("GatherFusionPass", "the last element by a slice", lambda x: tf.exp(x[:, -1]), VECTOR),
    ("StridedSliceMergePass", "slice of slice", lambda x: tf.exp(x[:, 1:5][:, :, 1:7]), VECTOR),
    ("ZConcatExt2FusionPass", "concat of concat", lambda x, y: tf.concat([tf.concat([x, y], -1), tf.exp(x)], -1), VECTOR * 2),
    ("TransOpSymmetryEliminationPass", "transposed twice", lambda x: tf.transpose(tf.transpose(x, [0, 2, 1]) * 2.0 + 1.0, [0, 2, 1]), VECTOR),
    ("TransFunctionSymmetryEliminationPass", "function of a transposed", lambda x: tf.transpose(tf.tanh(tf.transpose(x, [0, 3, 1, 2])), [0, 2, 3, 1]), IMAGE),
    ("TransOpSymmetryEliminationPass", "two convs in NHWC", lambda x: conv(tf.nn.relu(conv(x))), IMAGE),
    ("MultiHeadAttentionFusionPass", "attention", attention, VECTOR),
    ("MultiHeadAttentionFusionPass", "attention with a mask", attention, [(2, 6, 8), (2, 1, 6, 6)]),
    ("PowToMulPass", "square", lambda x: tf.pow(x, 2.0), VECTOR),
    ("RealDiv2MulsFusionPass", "divided by a constant", lambda x: x / 3.0, VECTOR),
    ("NoUseReshapeRemovePass", "reshape to the same", lambda x: tf.exp(tf.reshape(tf.exp(x), tf.shape(x))), VECTOR),
    ("PoolingFusionPass", "pad, pool", lambda x: tf.nn.avg_pool2d(tf.pad(x, [[0, 0], [1, 1], [1, 1], [0, 0]]), 3, 1, "VALID"), IMAGE),
]  # fmt: skip


def exported(
    function: Callable[..., Any], shapes: list[tuple[int, ...]], is_open: bool
) -> ModelProto:
    signature = [
        tf.TensorSpec((None if is_open else shape[0], *shape[1:]), tf.float32, name=f"x{index}")
        for index, shape in enumerate(shapes)
    ]
    graph = tf.function(function, input_signature=signature)
    return tf2onnx.convert.from_function(graph, input_signature=signature, opset=17)[0]


def forms() -> Iterator[tuple[str, str, Callable[[], ModelProto]]]:
    for pass_name, name, function, shapes in FORMS:
        for is_open in (False, True):
            size = "open" if is_open else "fixed"
            yield pass_name, f"{name}, {size}", partial(exported, function, shapes, is_open)


FILES = [("tf2onnx", f"tensorflow {tf.__version__}, tf2onnx {tf2onnx.__version__}", forms)]
