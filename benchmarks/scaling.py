"""Measure how time and memory grow with the size of the model.

    python benchmarks/scaling.py                    time per node at 1,200 and 120,000 nodes, and
                                                    external weights
    python benchmarks/scaling.py --nodes            only the first part
    python benchmarks/scaling.py --nodes --small 12000 --large 1200000 --only chain
    python benchmarks/scaling.py --gigabytes 8      only the second part, with this size of weights

There are ten shapes of graphs: a chain; a chain in which every second node is an Identity that is
removed; a chain that is equivalent to one Relu; a constant that half of the nodes use; layers of
products that become one product each; a value that all nodes use; a node that reads all the others;
a node that moves from one end to the other; an If for every hundred nodes, which are in its
branches; and a hundred functions with all nodes in them. They are converted without verification.
"""

from __future__ import annotations

import argparse
import os
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from pathlib import Path

import onnx
from onnx import TensorProto, helper
from whole_process import cost_of

import fusionc

# divisible by the periods of the shapes
SMALL = 1_200
LARGE = 120_000
GIGABYTES = 3
FUNCTIONS = 100


def chain(count: int) -> list[onnx.NodeProto]:
    return [
        helper.make_node("Relu" if i % 2 else "Neg", [f"v{i}"], [f"v{i + 1}"]) for i in range(count)
    ]


def identities(count: int) -> list[onnx.NodeProto]:
    return [
        helper.make_node("Relu" if i % 2 else "Identity", [f"v{i}"], [f"v{i + 1}"])
        for i in range(count)
    ]


def repeated(count: int) -> list[onnx.NodeProto]:
    """A chain that is equivalent to one Relu."""
    return [helper.make_node("Relu", [f"v{i}"], [f"v{i + 1}"]) for i in range(count)]


def projections(count: int) -> list[onnx.NodeProto]:
    """Layers of three products of one value, which become one product each."""
    nodes = []
    for i in range(0, count, 6):
        x = f"v{i}"
        products = [f"p{i + j}" for j in range(3)]
        nodes += [
            helper.make_node("MatMul", [x, f"w{j}"], [product])
            for j, product in enumerate(products)
        ]
        nodes += [
            helper.make_node(op, [product], [f"a{product}"])
            for op, product in zip(("Relu", "Abs"), products, strict=False)
        ]
        summed = [*(f"a{product}" for product in products[:2]), products[2]]
        nodes.append(helper.make_node("Sum", summed, [f"v{min(i + 6, count)}"]))
    return nodes


def one_constant(count: int) -> list[onnx.NodeProto]:
    """Half of the nodes use the constant c. PrunePass removes them, because nothing uses them."""
    nodes = []
    for i in range(0, count, 2):
        nodes.append(helper.make_node("Relu" if i % 4 else "Neg", [f"v{i}"], [f"v{i + 2}"]))
        nodes.append(helper.make_node("Add", [f"v{i}", "c"], [f"dead{i}"]))
    return nodes


def hub(count: int) -> list[onnx.NodeProto]:
    """All nodes except one read the result of this one."""
    first = helper.make_node("Relu", ["v0"], ["v1"])
    return [
        first,
        *(helper.make_node("Add", [f"v{i}", "v1"], [f"v{i + 1}"]) for i in range(1, count)),
    ]


def concatenated(count: int) -> list[onnx.NodeProto]:
    """One node reads the results of all others, and the others are removed."""
    pieces = [f"p{i}" for i in range(count - 2)]
    nodes = [helper.make_node("Identity", ["v0"], [piece]) for piece in pieces]
    nodes.append(helper.make_node("Concat", pieces, ["all"], axis=0))
    return [*nodes, helper.make_node("Abs", ["all"], [f"v{count}"])]


def moving(count: int) -> list[onnx.NodeProto]:
    """A Gather moves from the end of a chain to its beginning."""
    nodes = [
        helper.make_node("Sin" if i % 2 else "Cos", [f"v{i}"], [f"v{i + 1}"])
        for i in range(count - 2)
    ]
    nodes.append(helper.make_node("Gather", [f"v{count - 2}", "first"], ["row"], axis=1))
    return [*nodes, helper.make_node("Abs", ["row"], [f"v{count}"])]


def branches(count: int) -> list[onnx.NodeProto]:
    nodes = []
    for first in range(0, count, 100):
        bodies = []
        for branch in ("then", "else"):
            names = [f"v{first}", *(f"{branch}{first}_{i}" for i in range(50))]
            body = [
                helper.make_node("Relu" if i % 2 else "Neg", names[i : i + 1], [names[i + 1]])
                for i in range(50)
            ]
            last = helper.make_tensor_value_info(names[-1], TensorProto.FLOAT, ["N", 4])
            bodies.append(helper.make_graph(body, branch, [], [last]))
        then, other = bodies
        nodes.append(
            helper.make_node(
                "If", ["which"], [f"v{first + 100}"], then_branch=then, else_branch=other
            )
        )
    return nodes


def calls(count: int) -> list[onnx.NodeProto]:
    size = count // FUNCTIONS
    return [
        helper.make_node(f"f{i}", [f"v{i * size}"], [f"v{(i + 1) * size}"], domain="local")
        for i in range(FUNCTIONS)
    ]


def functions(count: int) -> list[onnx.FunctionProto]:
    """The functions that are called."""
    size = count // FUNCTIONS
    opsets = [helper.make_opsetid("", 18)]
    names = ["v0"], [f"v{size}"]
    return [
        helper.make_function("local", f"f{i}", *names, chain(size), opsets)
        for i in range(FUNCTIONS)
    ]


SHAPES = (
    chain,
    identities,
    repeated,
    one_constant,
    projections,
    hub,
    concatenated,
    moving,
    branches,
    calls,
)


def model(
    nodes: list[onnx.NodeProto], last: str, functions: Sequence[onnx.FunctionProto] = ()
) -> onnx.ModelProto:
    graph = helper.make_graph(
        nodes,
        "scaling",
        [
            helper.make_tensor_value_info("v0", TensorProto.FLOAT, ["N", 4]),
            helper.make_tensor_value_info("which", TensorProto.BOOL, []),
        ],
        [helper.make_tensor_value_info(last, TensorProto.FLOAT, ["N", 4])],
        [
            helper.make_tensor("c", TensorProto.FLOAT, [4], [1.0, 2.0, 3.0, 4.0]),
            *(
                helper.make_tensor(
                    f"w{j}", TensorProto.FLOAT, [4, 4], [0.1 * (i + j) for i in range(16)]
                )
                for j in range(3)
            ),
            helper.make_tensor("first", TensorProto.INT64, [2], [0, 1]),
        ],
    )
    opsets = [helper.make_opsetid(*entry) for entry in (("", 18), ("local", 1))]
    return helper.make_model(graph, opset_imports=opsets, ir_version=10, functions=functions)


def made(make: Callable[[int], list[onnx.NodeProto]], count: int) -> onnx.ModelProto:
    """The model of a shape with about this many nodes."""
    return model(make(count), f"v{count}", functions(count) if make is calls else ())


def seconds_per_node(
    make: Callable[[int], list[onnx.NodeProto]], count: int, repeats: int = 3
) -> float:
    """The shortest of several conversions, without imports, in processor time of this process."""
    best = float("inf")
    with tempfile.TemporaryDirectory() as folder:
        source = Path(folder, "in.onnx")
        target = Path(folder, "out.onnx")
        onnx.save(made(make, count), source)
        for _ in range(repeats):
            start = time.process_time()
            fusionc.convert(source, output=target, verify=False)
            best = min(best, time.process_time() - start)
    return best / count


def external_weights(gigabytes: int) -> tuple[float, float]:
    """The seconds and the peak memory in GB of converting a model whose weights stay unchanged, in
    a separate process.
    """
    with tempfile.TemporaryDirectory() as folder:
        nodes = []
        tensors = []
        for i in range(gigabytes * 4):
            nodes.append(helper.make_node("MatMul", [f"v{i}", f"w{i}"], [f"v{i + 1}"]))
            tensor = TensorProto(name=f"w{i}", data_type=TensorProto.FLOAT, dims=[8192, 8192])
            tensor.data_location = TensorProto.EXTERNAL
            for key, value in (("location", "weights"), ("offset", i << 28), ("length", 1 << 28)):
                tensor.external_data.add(key=key, value=str(value))
            tensors.append(tensor)
        nodes.append(helper.make_node("Identity", [nodes[-1].output[0]], ["middle"]))
        nodes.append(helper.make_node("Relu", ["middle"], ["last"]))
        large = model(nodes, "last")
        large.graph.input[0].type.tensor_type.shape.dim[1].dim_value = 8192
        large.graph.output[0].type.tensor_type.shape.dim[1].dim_value = 8192
        large.graph.initializer.extend(tensors)
        Path(folder, "in.onnx").write_bytes(large.SerializeToString())
        with open(Path(folder, "weights"), "wb") as file:
            file.truncate(gigabytes << 30)
        os.mkdir(Path(folder, "elsewhere"))
        code = "import fusionc, sys; fusionc.convert(sys.argv[1], output=sys.argv[2], verify=False)"
        cost = cost_of(
            [sys.executable, "-c", code, f"{folder}/in.onnx", f"{folder}/elsewhere/out.onnx"]
        )
        if cost.code:
            sys.exit(cost.said)
        return cost.seconds, cost.peak / 1e9


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--nodes", action="store_true")
    parser.add_argument("--small", type=int, default=SMALL)
    parser.add_argument("--large", type=int, default=LARGE)
    parser.add_argument("--only", default="")
    parser.add_argument("--gigabytes", type=int)
    options = parser.parse_args()
    for make in SHAPES if options.gigabytes is None else ():
        if options.only in make.__name__:
            small = seconds_per_node(make, options.small, 5)
            large = seconds_per_node(make, options.large, 3 if options.large <= LARGE else 1)
            at = f"µs a node at {options.small:,}, {large * 1e6:6.0f} at {options.large:,}"
            print(f"{make.__name__:13} {small * 1e6:6.0f} {at}: ×{large / small:.2f}", flush=True)
    if not options.nodes:
        size = options.gigabytes or GIGABYTES
        elapsed, peak = external_weights(size)
        print(
            f"{size} GB of external weights, copied to another folder: {elapsed:.1f} s, peak "
            f"memory {peak:.2f} GB"
        )


if __name__ == "__main__":
    main()
