"""Models that crash or block onnxruntime, and one harmless model."""

from __future__ import annotations

from pathlib import Path

import onnx

_HEADER = '<ir_version: 10, opset_import: ["" : 18]>\n'

PLAIN = "agraph (int64[2] x) => (int64[2] y) <int64[2] c = {3, 5}> { y = Add(c, x) }"
# The second output of the Split is omitted. onnxruntime writes it to memory that does not exist.
SPLIT = """agraph (int64[2] x) => (int64[2] y) <int64[4] c = {3, 5, 7, 9}, int64[2] s = {2, 2}> {
    a, dropped = Split(c, s)
    y = Add(a, x)
}"""
OVERFLOW = """agraph (int64[2] x) => (int64[2] y) <int64[2] c = {-9223372036854775808, 5}, int64[2] d = {-1, -1}> {
    a = Div(c, d)
    y = Add(a, x)
}"""
ENDLESS = """agraph (int64[2] x) => (int64[2] y) <int64 n = {9223372036854775807}, bool t = {1}> {
    y = Loop(n, t, x) <body = body (int64 i, bool c, int64[2] a) => (bool d, int64[2] b) {
        d = Identity(c)
        b = Add(a, a)
    }>
}"""
HUNGRY = """agraph (int64[2] x) => (int64[2] y) <int64[1] s = {1099511627776}> {
    a = ConstantOfShape(s)
    b = ReduceSum <keepdims = 0> (a)
    c = Cast <to = 7> (b)
    y = Add(c, x)
}"""


def model(text: str) -> onnx.ModelProto:
    """The model of a text without its header. Outputs named `dropped` are omitted."""
    parsed = onnx.parser.parse_model(_HEADER + text)
    for node in parsed.graph.node:
        node.output[:] = ["" if name == "dropped" else name for name in node.output]
    return parsed


def saved(text: str, path: Path) -> Path:
    """Write this model to a file, and return the path."""
    onnx.save(model(text), path)
    return path
