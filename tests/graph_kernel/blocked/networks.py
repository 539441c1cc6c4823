"""Small convolutional networks with random weights, and the areas that are found in them."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import onnx
from areas import plain_model, session
from interpreter import CProgram, Interpreter, programs_in
from onnx import helper, numpy_helper

from fusionc.graph_kernel.area import Area, KernelKind
from fusionc.graph_kernel.blocked.fuse_operations import Operations
from fusionc.graph_kernel.blocked.image_area import Operation
from fusionc.graph_kernel.c.source import source
from fusionc.graph_kernel.select.area_location import AreaLocation
from fusionc.graph_kernel.select.blocked_clusters import blocked_locations, integer_locations
from fusionc.shapes.inference import typed_model

Array = np.ndarray[Any, Any]
MICROSOFT = "com.microsoft"
# Kernels and attributes of transposed convolutions.
TRANSPOSED: dict[str, tuple[tuple[int, int], dict[str, Any]]] = {
    "apart": ((2, 3), {"strides": [2, 3]}),
    "overlapping": ((3, 3), {"strides": [2, 2], "pads": [1, 1, 1, 1], "output_padding": [1, 1]}),
    "twice": ((4, 4), {"strides": [2, 2], "pads": [1, 1, 1, 1]}),
    "uneven": ((5, 2), {"strides": [3, 1], "pads": [0, 1, 2, 0]}),
    "gaps": ((1, 2), {"strides": [3, 3], "output_padding": [2, 1]}),
    "plain": ((3, 3), {}),
    "cut": ((3, 3), {"strides": [1, 2], "pads": [2, 2, 2, 2]}),
    "valid": ((3, 4), {"strides": [2, 2], "auto_pad": "VALID"}),
    "groups": ((4, 4), {"strides": [2, 2], "pads": [1, 1, 1, 1], "group": 2}),
}
ALGORITHMS = KernelKind.WINOGRAD | KernelKind.STRASSEN
REPEATED = {
    "mode": "nearest",
    "coordinate_transformation_mode": "asymmetric",
    "nearest_mode": "floor",
}  # pixels of a Resize
SHARE = 2e-4  # float32 sums in another order may differ by this share of the largest element


class Network:
    """A model in the making. Methods add an operator and return the name of its result."""

    def __init__(self, opset: int = 17, seed: int = 0) -> None:
        self.rng = np.random.default_rng(seed)
        self.opset = opset
        self.nodes: list[onnx.NodeProto] = []
        self.weights: dict[str, Array] = {}
        self.inputs: dict[str, Sequence[int | str]] = {}
        self.outputs: list[str] = []

    def input(self, *shape: int | str) -> str:
        name = f"in{len(self.inputs)}"
        self.inputs[name] = shape
        return name

    def op(
        self, op: str, *inputs: str, domain: str = "", outputs: int = 1, **attributes: Any
    ) -> Any:
        made = [f"v{len(self.nodes)}_{k}" for k in range(outputs)]
        self.nodes.append(helper.make_node(op, list(inputs), made, domain=domain, **attributes))
        return made[0] if outputs == 1 else made

    def const(self, array: Any, dtype: Any = np.float32) -> str:
        name = f"w{len(self.weights)}"
        self.weights[name] = np.asarray(array, dtype)
        return name

    def random(self, *shape: int) -> str:
        fan = max(1, int(np.prod(shape[1:])))
        return self.const(self.rng.standard_normal(shape) / np.sqrt(fan))

    def conv(
        self,
        x: str,
        channels: int,
        out: int,
        kernel: int = 3,
        *,
        bias: bool = True,
        op: str = "Conv",
        z: str = "",
        group: int = 1,
        **attributes: Any,
    ) -> str:
        attributes.setdefault("pads", [kernel // 2] * 4)
        if "auto_pad" in attributes:
            del attributes["pads"]
        weights = self.random(out, channels // group, kernel, kernel)
        inputs = [x, weights, self.random(out) if bias else "", z]
        while not inputs[-1]:
            inputs.pop()
        domain = MICROSOFT if op == "FusedConv" else ""
        return str(
            self.op(
                op, *inputs, domain=domain, kernel_shape=[kernel] * 2, group=group, **attributes
            )
        )

    def transposed(self, name: str, x: str, channels: int, out: int) -> str:
        """A transposed convolution, one of TRANSPOSED."""
        kernel, attributes = TRANSPOSED[name]
        weights = self.random(channels, out // attributes.get("group", 1), *kernel)
        return str(
            self.op(
                "ConvTranspose", x, weights, self.random(out), kernel_shape=kernel, **attributes
            )
        )

    def product(self, x: str, channels: int, out: int, *, bias: bool = True) -> str:
        """Rows times a matrix."""
        made = self.op(
            "MatMul", x, self.const(self.rng.standard_normal((channels, out)) / np.sqrt(channels))
        )
        return str(self.op("Add", made, self.random(out)) if bias else made)

    def mean_of_squares(self, x: str, axis: int = -1) -> str:
        return str(self.op("ReduceMean", self.op("Pow", x, self.const(2.0)), axes=[axis]))

    def model(self, *outputs: str) -> onnx.ModelProto:
        infos = [helper.make_tensor_value_info(n, 1, shape) for n, shape in self.inputs.items()]
        ends = [helper.make_tensor_value_info(n, 1, None) for n in outputs or self.outputs]
        tensors = [numpy_helper.from_array(a, n) for n, a in self.weights.items()]
        graph = helper.make_graph(self.nodes, "network", infos, ends, tensors)
        imports = [helper.make_opsetid("", self.opset), helper.make_opsetid(MICROSOFT, 1)]
        return helper.make_model(graph, opset_imports=imports, ir_version=10)

    def feeds(
        self, sizes: Mapping[str, int] | None = None, edges: bool = False
    ) -> dict[str, Array]:
        """Random inputs with these sizes of symbols. With `edges`, some elements are not finite."""
        found = {}
        for name, shape in self.inputs.items():
            array = self.rng.standard_normal(
                [d if isinstance(d, int) else (sizes or {})[d] for d in shape]
            )
            if edges and array.size:
                for value in (np.nan, np.inf, -np.inf):
                    array.flat[self.rng.integers(array.size)] = value
            found[name] = array.astype(np.float32)
        return found


@dataclass(frozen=True)
class Found:
    """A blocked area of a model, with its weights, and the names of its images in the model. The
    keys of both are the area's own names.
    """

    area: Area
    constants: Mapping[str, Array]
    images: Mapping[str, str]

    def tensors(self, values: Mapping[str, Array]) -> list[Array]:
        """The inputs of the area. `values` are the values of the model."""
        return [
            self.constants[n] if n in self.constants else values[self.images[n]]
            for n in self.area.inputs
        ]

    def feeds(self, values: Mapping[str, Array]) -> dict[str, Array]:
        """The inputs without weights, by their names in a model of call_of."""
        return {inside: values[outside] for inside, outside in self.images.items()}


def areas_of(model: onnx.ModelProto, kind: KernelKind = ALGORITHMS) -> list[Found]:
    """The blocked areas of a model."""
    graph = typed_model(model, "").main
    return [found_at(location) for location in blocked_locations(graph, kind)]


def found_at(location: AreaLocation) -> Found:
    """An area, with its weights and the names of its images."""
    pairs = list(zip(location.area.inputs, location.inputs, strict=True))
    return Found(
        location.area,
        {name: edge.constant() for name, edge in pairs if edge.is_constant},
        {name: edge.name for name, edge in pairs if not edge.is_constant},
    )


@dataclass(frozen=True)
class IntegerCase:
    """A network with one area that computes in integers. The outputs of `model` are those of the
    area.
    """

    network: Network
    found: Found
    model: onnx.ModelProto


def integer_case(network: Network) -> IntegerCase:
    """The area of a network that computes in integers."""
    graph = typed_model(network.model(), "").main
    (location,) = integer_locations(graph, KernelKind.BLOCKED)
    model = network.model()
    del model.graph.output[:]
    model.graph.output.extend(onnx.ValueInfoProto(name=v.name) for v in location.outputs)
    return IntegerCase(network, found_at(location), model)


def kinds_of_steps(area: Area) -> list[str]:
    """What the steps of an area do: the kinds of all that are not loads and stores."""
    kinds = [
        type(item.kind).__name__ for item in Operations(area).items if isinstance(item, Operation)
    ]
    return [kind for kind in kinds if kind not in ("LoadStep", "StoreStep")]


def operators_in(network: Network, *outputs: str) -> list[list[str]]:
    """The operators of each blocked area of a network."""
    return [
        [node.op_type for node in found.area.nodes] for found in areas_of(network.model(*outputs))
    ]


def only_area(model: onnx.ModelProto, kind: KernelKind = ALGORITHMS) -> Found:
    (found,) = areas_of(model, kind)
    return found


def values_of(
    model: onnx.ModelProto, feeds: Mapping[str, Array], names: Iterable[str]
) -> dict[str, Array]:
    """These values of a model, as onnxruntime computes them. They may include inputs."""
    inner = onnx.ModelProto()
    inner.CopyFrom(model)
    wanted = [name for name in dict.fromkeys(names) if name not in feeds]
    del inner.graph.output[:]
    for name in wanted:
        inner.graph.output.add(name=name)
    return dict(feeds) | (
        dict(zip(wanted, session(inner).run(None, dict(feeds)), strict=True)) if wanted else {}
    )


def program_of_area(area: Area) -> CProgram:
    """The program of an area, read from the C text of a library."""
    return programs_in(source([area]))[area.name]


def wanted(area: Area, tensors: Sequence[Array]) -> list[Array]:
    """The outputs of an area, as onnxruntime computes them."""
    model = plain_model(area)
    model.opset_import.append(helper.make_opsetid(MICROSOFT, 1))
    return list(session(model).run(None, dict(zip(area.inputs, tensors, strict=True))))


def difference(a: Array, b: Array) -> str:
    """A description of the first difference, or ""."""
    if a.shape != b.shape:
        return f"shapes {a.shape} and {b.shape}"
    finite = np.isfinite(a) & np.isfinite(b)
    scale = float(np.abs(a[finite]).max(initial=1e-3))
    with np.errstate(invalid="ignore"):
        wrong = np.where(
            finite, np.abs(a - b) > SHARE * scale, ~((a == b) | (np.isnan(a) & np.isnan(b)))
        )
    if not wrong.any():
        return ""
    at = tuple(np.argwhere(wrong)[0])
    return f"{int(wrong.sum())} of {a.size} differ, at {at}: {a[at]} and {b[at]}"


def check(area: Area, tensors: Sequence[Array]) -> CProgram:
    """Run the program of an area on its inputs, and compare it with onnxruntime."""
    program = program_of_area(area)
    for k, (a, b) in enumerate(
        zip(wanted(area, tensors), Interpreter(program, tensors).run(), strict=True)
    ):
        problem = difference(a, b)
        assert not problem, f"output {k}: {problem}"
    return program


def check_all(network: Network, sizes: Mapping[str, int]) -> None:
    """Check all areas of a network with these sizes of symbols."""
    model = network.model()
    found = areas_of(model)
    names = [name for one in found for name in one.images.values()]
    values = values_of(model, network.feeds(sizes), names)
    for one in found:
        check(one.area, one.tensors(values))


def check_alone(
    network: Network,
    *outputs: str,
    sizes: Mapping[str, int] | None = None,
    kind: KernelKind = ALGORITHMS,
) -> CProgram:
    """Check a network that is a single area, and return its program."""
    found = only_area(network.model(*outputs), kind)
    return check(found.area, found.tensors(network.feeds(sizes)))


def kinds_of(program: CProgram) -> str:
    """The kinds of the steps as one text, without steps that only load or store images."""
    return re.sub(r"\b(LOAD|STORE)\b ?", "", " ".join(program.kinds)).strip()


def heads_in_front(n: Network, rows: str, heads: int, size: int) -> str:
    """Split the channels of rows into heads, and move the heads before the rows."""
    apart = n.op("Reshape", rows, n.const([0, 0, heads, size], np.int64))
    return str(n.op("Transpose", apart, perm=[0, 2, 1, 3]))


def repeated(n: Network, heads: str, count: int, times: int, size: int) -> str:
    """Repeat each head several times."""
    apart = n.op("Unsqueeze", heads, n.const([2], np.int64))
    more = n.op("Expand", apart, n.const([1, 1, times, 1, 1], np.int64))
    return str(n.op("Reshape", more, n.const([0, count * times, -1, size], np.int64)))


def rotary(
    n: Network, x: str, cosines: str, sines: str, position: int = 0, **attributes: Any
) -> str:
    """A rotary embedding of rows, or of their heads."""
    at = n.const([position], np.int64)
    return str(n.op("RotaryEmbedding", x, at, cosines, sines, domain=MICROSOFT, **attributes))


def sliced(n: Network, x: str, start: int, end: int, axis: int = 1, step: int | None = None) -> str:
    """A Slice along one axis. It has an input for the step only if `step` is given."""
    numbers = (start, end, axis) if step is None else (start, end, axis, step)
    return str(n.op("Slice", x, *(n.const([v], np.int64) for v in numbers)))
