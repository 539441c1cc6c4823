from __future__ import annotations

from harness import Fires, Stays, tables

DFT = "agraph (float[{}] x) => (float[{}] y) <int64 n = {{8}}, int64 six = {{6}}, int64 a = {{{}}}> {{ {} }}"
SLOWER = "the transform is faster than a product with a matrix of this size"


def dft(node: str, signal: str = "B,8,1", result: str = "B,K,2", axis: int = 1) -> str:
    return DFT.format(signal, result, axis, node)


def fires(name: str, graph: str, opset: int = 17) -> Fires:
    # An infinity makes only the bins infinite that it goes into.
    return Fires(
        name,
        graph,
        ["Reshape", "MatMul", "Reshape"],
        opset=opset,
        sizes={"B": 3},
        edge_values=False,
        zero_sizes=False,
    )


STAYS = [
    Stays(
        "a phase behind it",
        "agraph (float[B,8,1] x) => (float[B,K,1] y) <int64[2] k = {1, 1}>"
        " { d = DFT (x) r, i = Split <axis = 2> (d, k) q = Div (i, r) y = Atan (q) }",
        "the result of the later Atan depends on the rounding of numbers near 0",
        17,
    ),
    Stays(
        "two lengths",
        dft("y = DFT (x, two)").replace("> {", ", int64[2] two = {8, 8}> {"),
        "the length is not a single number",
        17,
        valid=False,
    ),
    Stays("cut", dft("y = DFT (x, six)"), "the signal is cut or padded", 17),
    Stays("padded", dft("y = DFT (x, n)", "B,6,1"), "the signal is cut or padded", 17),
    Stays(
        "another axis",
        dft("y = DFT <axis = 1> (x)", "B,8,4,2", "B,8,4,2"),
        "the axis is not the last one before the real and imaginary parts",
        17,
    ),
    Stays(
        "another axis as an input",
        dft("y = DFT (x, , a)", "B,8,4,2", "B,8,4,2"),
        "the axis is not the last one before the real and imaginary parts",
        20,
    ),
    Stays(
        "a length that is unknown",
        dft("y = DFT (x)", "B,N,1"),
        "the length of the signal is unknown",
        17,
    ),
    Stays(
        "real or complex",
        dft("y = DFT (x)", "B,8,P"),
        "whether the signal is real or complex is unknown",
        17,
    ),
    Stays(
        "a length that is an input",
        "agraph (float[B,8,1] x, int64 n) => (float[B,K,2] y) { y = DFT (x, n) }",
        None,
        17,
    ),
    Stays(
        "one side of complex numbers",
        dft("y = DFT <onesided = 1> (x)", "B,8,2"),
        "the transform is one-sided and complex, which is not valid",
        17,
        valid=False,
    ),
    Stays("a power of two, and long", dft("y = DFT <onesided = 1> (x)", "B,1024,1"), SLOWER, 17),
    Stays("a large matrix", dft("y = DFT <onesided = 1> (x)", "B,1200,1"), SLOWER, 17),
    Stays(
        "another target",
        dft("y = DFT (x)"),
        "for target onnx no gain is known",
        17,
        target="onnx",
    ),
]

FIRES = [
    fires("real", dft("y = DFT (x)")),
    fires("complex", dft("y = DFT (x)", "B,8,2")),
    fires("one side", dft("y = DFT <onesided = 1> (x)")),
    fires("the inverse", dft("y = DFT <inverse = 1> (x)", "B,8,2")),
    fires("an odd length", dft("y = DFT (x)", "B,7,2")),
    fires("one number", dft("y = DFT (x)", "B,1,1")),
    fires("its own length", dft("y = DFT (x, n)")),
    fires("more axes", dft("y = DFT <axis = 2> (x)", "B,3,5,2", "B,3,K,2")),
    fires("an axis from the end", dft("y = DFT <axis = -2> (x)", "B,3,5,1", "B,3,K,2")),
    fires("opset 20", dft("y = DFT (x)"), 20),
    fires("opset 20 with an axis", dft("y = DFT (x, , a)", "B,6,2"), 20),
    fires("in float64", dft("y = DFT (x)", "B,8,2").replace("float[", "double[")),
]

test_stays, test_fires = tables("DftToMatMulPass", STAYS, FIRES, in_functions="never")
