"""Write the sample models beside this file; with --check, only say whether they are what would be
written.

    conv_bn.onnx            convolutions with batch norm, scale, bias, padding, activations
    matmul_bias.onnx        a multilayer perceptron with dropout, identities and something to fold
    split_concat.onnx       nests of Split and Concat, one convolution for each piece
    transformer_block.onnx  one encoder block as an exporter writes it out
    control_flow.onnx       an If whose branches hold convolutions, a Loop

The weights are seeded: every run writes the same bytes.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

HERE = Path(__file__).parent
FLOAT = TensorProto.FLOAT
INT64 = TensorProto.INT64
BOOL = TensorProto.BOOL


class Builder:
    """A graph under construction: `b.Conv(x, w, strides=[2, 2])` adds a node and returns the name
    of its output.
    """

    def __init__(self, seed: int) -> None:
        self.random = np.random.default_rng(seed)
        self.nodes: list[onnx.NodeProto] = []
        self.weights: list[onnx.TensorProto] = []

    def __getattr__(self, op: str) -> Callable[..., str]:
        return lambda *inputs, **attributes: self.node(op, *inputs, **attributes)[0]

    def node(self, op: str, *inputs: str, outputs: int = 1, **attributes: object) -> list[str]:
        name = f"{op.lower()}_{len(self.nodes)}"
        names = [name if outputs == 1 else f"{name}.{i}" for i in range(outputs)]
        self.nodes.append(helper.make_node(op, list(inputs), names, name=name, **attributes))
        return names

    def const(self, value: object, dtype: type = np.float32) -> str:
        name = f"constant_{len(self.weights)}"
        self.weights.append(numpy_helper.from_array(np.asarray(value, dtype), name))
        return name

    def weight(self, *shape: int) -> str:
        """Random numbers of a size that keeps activations near 1."""
        return self.const(self.random.standard_normal(shape) / np.sqrt(max(1, np.prod(shape[1:]))))

    def batchnorm(self, x: str, channels: int) -> str:
        positive = [self.const(self.random.uniform(0.5, 1.5, channels)) for _ in range(2)]
        return self.BatchNormalization(
            x, positive[0], self.weight(channels), self.weight(channels), positive[1]
        )

    def graph(
        self, name: str, inputs: list[onnx.ValueInfoProto], outputs: list[onnx.ValueInfoProto]
    ) -> onnx.GraphProto:
        return helper.make_graph(self.nodes, name, inputs, outputs, self.weights)


def model(graph: onnx.GraphProto, opset: int = 17) -> onnx.ModelProto:
    made = helper.make_model(graph, opset_imports=[helper.make_opsetid("", opset)], ir_version=8)
    made.producer_name = "fusionc sample models"
    return made


def value(name: str, shape: list[int | str], elem_type: int = FLOAT) -> onnx.ValueInfoProto:
    return helper.make_tensor_value_info(name, elem_type, shape)


def conv_bn() -> onnx.ModelProto:
    b = Builder(1)
    x = b.Relu(b.batchnorm(b.Conv("image", b.weight(16, 3, 3, 3), pads=[1, 1, 1, 1]), 16))
    depthwise = b.batchnorm(
        b.Conv(x, b.weight(16, 1, 3, 3), b.weight(16), group=16, pads=[1, 1, 1, 1]), 16
    )
    y = b.Clip(depthwise, b.const(0), b.const(6))
    padded = b.Pad(b.Add(x, y), b.const([0, 0, 1, 1, 0, 0, 1, 1], np.int64))
    y = b.Conv(padded, b.weight(16, 16, 3, 3))
    y = b.Add(b.Mul(y, b.const(b.random.uniform(0.5, 2, (1, 16, 1, 1)))), b.weight(16, 1, 1))
    y = b.LeakyRelu(y, alpha=0.1)
    y = b.Relu(b.batchnorm(b.ConvTranspose(y, b.weight(16, 8, 2, 2), strides=[2, 2]), 8))
    b.nodes[-1].output[0] = "features"
    return model(
        b.graph(
            "conv_bn", [value("image", ["N", 3, 16, 16])], [value("features", ["N", 8, 32, 32])]
        )
    )


def matmul_bias() -> onnx.ModelProto:
    b = Builder(2)
    x = b.Identity("x")
    for inner, outer in ((32, 64), (64, 64)):
        x = b.Relu(b.Add(b.MatMul(x, b.weight(inner, outer)), b.weight(outer)))
        x = b.Dropout(x, b.const(0.1))
    scale = b.Sqrt(b.Mul(b.const(2.0), b.const(8.0)))  # 4: known before the model runs
    x = b.Div(b.Add(b.weight(10), b.MatMul(x, b.weight(64, 10))), scale)
    b.Identity(x)
    b.nodes[-1].output[0] = "y"
    return model(b.graph("matmul_bias", [value("x", ["N", 32])], [value("y", ["N", 10])]))


def split_concat() -> onnx.ModelProto:
    b = Builder(3)
    pieces = b.node("Split", "x", b.const([4, 4, 4], np.int64), outputs=3, axis=1)
    convs = [
        b.Conv(piece, b.weight(4, 4, 3, 3), b.weight(4), pads=[1, 1, 1, 1]) for piece in pieces
    ]
    x = b.Concat(*convs, axis=1)
    halves = b.node("Split", x, b.const([8, 4], np.int64), outputs=2, axis=1)
    quarters = b.node("Split", halves[0], b.const([4, 4], np.int64), outputs=2, axis=1)
    inner = b.Concat(b.Relu(quarters[0]), b.Sigmoid(quarters[1]), axis=1)
    x = b.Concat(inner, b.Tanh(halves[1]), axis=1)
    b.Concat(*b.node("Split", x, b.const([6, 6], np.int64), outputs=2, axis=1), axis=1)
    b.nodes[-1].output[0] = "y"
    return model(
        b.graph("split_concat", [value("x", ["N", 12, 8, 8])], [value("y", ["N", 12, 8, 8])])
    )


def transformer_block() -> onnx.ModelProto:
    b = Builder(4)
    width = 32
    heads = 4

    def norm(x: str) -> str:
        centred = b.Sub(x, b.ReduceMean(x, axes=[-1]))
        variance = b.ReduceMean(
            b.Pow(b.Sub(x, b.ReduceMean(x, axes=[-1])), b.const(2.0)), axes=[-1]
        )
        normal = b.Div(centred, b.Sqrt(b.Add(variance, b.const(1e-5))))
        return b.Add(b.Mul(normal, b.const(b.random.uniform(0.5, 1.5, width))), b.weight(width))

    def linear(x: str, inner: int, outer: int) -> str:
        return b.Add(b.MatMul(x, b.weight(inner, outer)), b.weight(outer))

    def to_heads(x: str) -> str:
        shape = b.Shape(x)
        dims = [
            b.Unsqueeze(b.Gather(shape, b.const(i, np.int64), axis=0), b.const([0], np.int64))
            for i in (0, 1)
        ]
        target = b.Concat(
            *dims, b.const([heads], np.int64), b.const([width // heads], np.int64), axis=0
        )
        return b.Transpose(b.Reshape(x, target), perm=[0, 2, 1, 3])

    q, k, v = (to_heads(linear("x", width, width)) for _ in range(3))
    scores = b.Div(b.MatMul(q, b.Transpose(k, perm=[0, 1, 3, 2])), b.const(np.sqrt(width / heads)))
    context = b.MatMul(b.Softmax(b.Add(scores, "mask"), axis=-1), v)
    shape = b.const([0, -1, width], np.int64)
    attended = linear(b.Reshape(b.Transpose(context, perm=[0, 2, 1, 3]), shape), width, width)
    x = norm(b.Add("x", attended))
    hidden = linear(x, width, 4 * width)
    gate = b.Add(b.Erf(b.Div(hidden, b.const(np.sqrt(2)))), b.const(1.0))
    gelu = b.Mul(b.Mul(hidden, gate), b.const(0.5))
    norm(b.Add(x, linear(gelu, 4 * width, width)))
    b.nodes[-1].output[0] = "y"
    inputs = [value("x", ["batch", "seq", width]), value("mask", ["batch", 1, 1, "seq"])]
    return model(b.graph("transformer_block", inputs, [value("y", ["batch", "seq", width])]))


def control_flow() -> onnx.ModelProto:
    branches = []
    for seed, name in ((5, "with_norm"), (6, "with_dropout")):
        inner = Builder(seed)
        y = inner.Conv("x", inner.weight(4, 3, 3, 3), pads=[1, 1, 1, 1])
        y = inner.batchnorm(y, 4) if name == "with_norm" else inner.Dropout(y)
        inner.Relu(y)
        for node in inner.nodes:  # names are unique in the whole model
            node.name = f"{name}/{node.name}"
            node.input[:] = [i if i == "x" else f"{name}/{i}" for i in node.input]
            node.output[:] = [f"{name}/{o}" for o in node.output]
        for tensor in inner.weights:
            tensor.name = f"{name}/{tensor.name}"
        branches.append(
            inner.graph(name, [], [value(inner.nodes[-1].output[0], ["N", 4, "H", "W"])])
        )
    step = [
        helper.make_node("Identity", ["go"], ["go_on"], name="step/identity"),
        helper.make_node("Concat", ["state"], ["same"], name="step/concat", axis=1),
        helper.make_node("Mul", ["same", "half"], ["next"], name="step/mul"),
    ]
    body = helper.make_graph(
        step, "step",
        [value("i", [], INT64), value("go", [], BOOL), value("state", ["N", 4, "H", "W"])],
        [value("go_on", [], BOOL), value("next", ["N", 4, "H", "W"])],
    )  # fmt: skip
    b = Builder(7)
    b.weights += [
        numpy_helper.from_array(np.float32(0.5), "half"),
        numpy_helper.from_array(np.int64(3), "times"),
    ]
    b.nodes += [
        helper.make_node(
            "If",
            ["flag"],
            ["chosen"],
            name="choose",
            then_branch=branches[0],
            else_branch=branches[1],
        ),
        helper.make_node("Loop", ["times", "", "chosen"], ["y"], name="repeat", body=body),
    ]
    inputs = [value("x", ["N", 3, "H", "W"]), value("flag", [], BOOL)]
    return model(b.graph("control_flow", inputs, [value("y", ["N", 4, "H", "W"])]))


MODELS = (conv_bn, matmul_bias, split_concat, transformer_block, control_flow)


def main() -> int:
    stale = []
    for make in MODELS:
        path = HERE / f"{make.__name__}.onnx"
        made = make()
        onnx.checker.check_model(made, full_check=True)
        data = made.SerializeToString(deterministic=True)
        if "--check" not in sys.argv:
            path.write_bytes(data)
        elif not path.exists() or path.read_bytes() != data:
            stale.append(path.name)
    if stale:
        print(f"not what sample_models/make.py writes: {', '.join(stale)}; run `make samples`")
    return int(bool(stale))


if __name__ == "__main__":
    sys.exit(main())
