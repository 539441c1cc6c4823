"""Larger models, joined from the small models on which passes fire and from the sample models.

The inputs of a snippet come from existing values: directly if types and shapes fit, through a few
additional nodes if they do not, or from a new graph input. Some snippets are placed in the branches
of an If, in the body of a Loop or in a function. Some inner values become outputs.
"""

from __future__ import annotations

import importlib.util
import itertools
import random
import sys
from collections.abc import Callable, Iterator, Sequence, Set
from dataclasses import dataclass, field
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
import onnx
from onnx import GraphProto, ModelProto, TensorProto, ValueInfoProto, helper, numpy_helper

ROOT = Path(__file__).resolve().parents[1]
for folder in ("tests", "tests/passes"):
    if str(ROOT / folder) not in sys.path:
        sys.path.insert(0, str(ROOT / folder))

from harness import Stays, all_nodes, make_feeds, parse, session, wrap_in_if  # noqa: E402
from test_variations import load_fires  # noqa: E402
from variants import constants_as_nodes, copy_of, inside_function  # noqa: E402

from fusionc.operators.randomness import RANDOM_OR_STATEFUL  # noqa: E402
from fusionc.passes import PASSES  # noqa: E402
from fusionc.rewrite import Pass  # noqa: E402
from fusionc.verify.seeding import random_nodes  # noqa: E402

Dim = int | str
FLOATS = (TensorProto.FLOAT, TensorProto.DOUBLE, TensorProto.FLOAT16)
OPSETS = (18, 18, 18, 18, 20, 21, 22, 23, 13, 11, 9, 7)

# Operators whose outputs jump if the inputs change slightly: after a difference by rounding,
# nothing can be said about later values.
_SHARP = {
    *(
        "ArgMax",
        "ArgMin",
        "Ceil",
        "Compress",
        "DynamicQuantizeLinear",
        "Equal",
        "Floor",
        "Greater",
        "GreaterOrEqual",
    ),
    *(
        "IsInf",
        "IsNaN",
        "Less",
        "LessOrEqual",
        "Mod",
        "NonZero",
        "QuantizeLinear",
        "Round",
        "Sign",
        "TopK",
        "Unique",
    ),
}


@dataclass(frozen=True)
class Snippet:
    """A small model, and the conditions under which it runs."""

    name: str
    model: ModelProto
    opset: int
    sizes: dict[str, int] = field(default_factory=dict)
    edge_values: bool = True
    zero_sizes: bool = True

    @property
    def is_sharp(self) -> bool:
        return any(
            node.op_type in _SHARP
            or (node.op_type == "Cast" and helper.get_node_attr_value(node, "to") not in FLOATS)
            or (node.op_type == "CastLike")
            for node in all_nodes(self.model)
        )


@dataclass(frozen=True)
class Value:
    """A tensor of the model, and its elements in a first run."""

    name: str
    elem_type: int
    dims: tuple[Dim, ...]
    array: np.ndarray
    is_input: bool = False

    @property
    def is_tame(self) -> bool:
        """Whether all elements are finite, and neither so large nor so small that later values
        would vanish in rounding.
        """
        if self.array.dtype.kind != "f":
            return True
        largest = float(np.abs(self.array.astype(np.float64)).max(initial=0.0))
        return 1e-2 <= largest <= 50.0 if np.isfinite(self.array).all() else False


def snippets() -> dict[str, list[Snippet]]:
    """The snippets of each pass, including models that the pass must not change, and the sample
    models.
    """
    found: dict[str, list[Snippet]] = {}
    for pass_ in PASSES:
        fires = found.setdefault(pass_.name, [])
        stays = found.setdefault(f"{pass_.name} stays", [])
        for case in load_fires(pass_):
            if _usable(model := parse(case.graph, case.opset, 10)):
                name = f"{pass_.name}: {case.name}"
                fires.append(
                    Snippet(
                        name, model, _opset(model), case.sizes, case.edge_values, case.zero_sizes
                    )
                )
        for other in load_stays(pass_):
            if other.valid and _usable(model := parse(other.graph, other.opset, 10)):
                stays.append(Snippet(f"{pass_.name}, stays: {other.name}", model, _opset(model)))
    samples = [
        (path.stem, onnx.load(path)) for path in sorted((ROOT / "sample_models").glob("*.onnx"))
    ]
    found["samples"] = [
        Snippet(name, model, _opset(model)) for name, model in samples if _usable(model)
    ]
    return found


def load_stays(pass_: Pass) -> list[Stays]:
    module = type(pass_).__module__.split(".")
    path = ROOT / "tests" / "passes" / module[-2] / f"test_{module[-1]}.py"
    return list(getattr(sys.modules.get(path.stem) or _loaded(path), "STAYS", []))


def _loaded(path: Path) -> ModuleType:
    spec = importlib.util.spec_from_file_location(path.stem, path)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def _usable(model: ModelProto) -> bool:
    stored = {tensor.name for tensor in model.graph.initializer}
    return not (
        model.functions
        or model.graph.sparse_initializer
        or any(node.op_type in RANDOM_OR_STATEFUL or _trains(node) for node in all_nodes(model))
        or random_nodes(model)
        or any(value.name in stored for value in model.graph.input)
        or not all(
            v.type.HasField("tensor_type") for v in [*model.graph.input, *model.graph.output]
        )
    )


def _trains(node: onnx.NodeProto) -> bool:
    """Whether a node learns: in onnxruntime, it then writes into its own constants."""
    if node.op_type == "BatchNormalization" and len(node.output) > 1:
        return True
    return any(attribute.name == "training_mode" and attribute.i for attribute in node.attribute)


def _opset(model: ModelProto) -> int:
    return next(entry.version for entry in model.opset_import if not entry.domain)


def _with_opset(model: ModelProto, opset: int) -> ModelProto:
    copy = copy_of(model)
    copy.ir_version = 10
    for entry in copy.opset_import:
        if not entry.domain:
            entry.version = opset
    return copy


class Glued:
    """A model that grows snippet by snippet. A snippet that would make it invalid is removed again.

    `sharp_anywhere` says whether snippets with comparisons and similar operators may read computed
    floats.
    """

    def __init__(self, rng: random.Random, opset: int, sharp_anywhere: bool) -> None:
        self.rng = rng
        self.opset = opset
        self.sharp_anywhere = sharp_anywhere
        self.model = ModelProto(ir_version=10, graph=GraphProto(name="glued"))
        self.model.opset_import.append(helper.make_opsetid("", opset))
        self.values: list[Value] = []
        self.sizes: dict[str, int] = {}  # of symbols that cannot have any size
        self.parts: list[str] = []
        self.used: set[str] = set()
        self.edge_values = self.zero_sizes = True
        self._number = 0

    def add(self, snippet: Snippet) -> bool:
        self._number += 1
        attachment = _Attachment(self, snippet, f"s{self._number}_")
        try:
            attachment.attach()
            onnx.checker.check_model(attachment.model, full_check=True)
            values = attachment.run()
        except Exception:  # of many types, if the snippet does not fit
            return False
        self.model = attachment.model
        self.sizes = attachment.sizes
        self.values = values
        self.used |= attachment.used
        self.parts.append(attachment.label)
        self.edge_values &= snippet.edge_values
        self.zero_sizes &= snippet.zero_sizes
        return True

    def finish(self) -> ModelProto:
        """The model with its outputs: all unused values, and some of the other values."""
        model = copy_of(self.model)
        rng = self.rng
        outputs = {value.name: value for value in model.graph.output}
        del model.graph.output[:]
        kept = [o for name, o in outputs.items() if name not in self.used or rng.random() < 0.25]
        inner = _inner_values(model, outputs.keys())
        kept += rng.sample(inner, min(len(inner), rng.choice([0, 0, 1, 2])))
        model.graph.output.extend(kept)
        declared = [t for t in model.graph.initializer if t.data_type == TensorProto.FLOAT]
        if declared and rng.random() < 0.1:  # the caller may override this initializer
            tensor = rng.choice(declared)
            model.graph.input.append(
                helper.make_tensor_value_info(tensor.name, tensor.data_type, tensor.dims)
            )
        return model


def _inner_values(model: ModelProto, outputs: Set[str]) -> list[ValueInfoProto]:
    """Computed values with known shapes, except the outputs."""
    inferred = onnx.shape_inference.infer_shapes(model, data_prop=True)
    computed = {name for node in model.graph.node for name in node.output if name}
    return [
        value
        for value in inferred.graph.value_info
        if value.name in computed - outputs and value.type.tensor_type.HasField("shape")
    ]


class _Attachment:
    """One snippet that is added to a copy of the model."""

    def __init__(self, glued: Glued, snippet: Snippet, prefix: str) -> None:
        self.glued = glued
        self.snippet = snippet
        self.prefix = prefix
        self.rng = glued.rng
        self.model = copy_of(glued.model)
        self.sizes = dict(glued.sizes)
        self.binding: dict[str, Dim] = {}
        self.names: dict[str, str] = {}
        self.used: set[str] = set()
        self.label = snippet.name
        self.made: list[str] = []
        self._count = 0

    def attach(self) -> None:
        part = self.variant(_with_opset(self.snippet.model, self.glued.opset))
        for value in part.graph.input:
            self.names[value.name] = self.source(value)
        graph = self.renamed(part.graph)
        main = self.model.graph
        main.node.extend(graph.node)
        main.initializer.extend(graph.initializer)
        main.value_info.extend(graph.value_info)
        made = {name for node in graph.node for name in node.output}
        taken = {value.name for value in main.output}
        main.output.extend(value for value in graph.output if value.name in made - taken)
        for function in part.functions:
            function.name = f"{self.prefix}{function.name}"
            self.model.functions.append(function)
        known = {entry.domain for entry in self.model.opset_import}
        self.model.opset_import.extend(
            entry for entry in part.opset_import if entry.domain not in known
        )

    def run(self) -> list[Value]:
        """Run the snippet once, to record its values."""
        feeds = make_feeds(self.model, {"": 2, **self.sizes}, 0)
        runner = session(self.model)
        names = [output.name for output in self.model.graph.output]
        arrays, again = (dict(zip(names, runner.run(None, feeds), strict=True)) for _ in range(2))
        if any(
            not np.array_equal(arrays[n], again[n], equal_nan=arrays[n].dtype.kind == "f")
            for n in names
        ):
            raise ValueError("random")
        values = []
        for value in [*self.model.graph.input, *self.model.graph.output]:
            array = feeds[value.name] if value.name in feeds else arrays[value.name]
            tensor = value.type.tensor_type
            if tensor.HasField("shape") and isinstance(array, np.ndarray):
                dims = tuple(dims_of(value))
                values.append(Value(value.name, tensor.elem_type, dims, array, value.name in feeds))
        return values

    def variant(self, part: ModelProto) -> ModelProto:
        """The snippet itself, or the snippet inside an If, a Loop or a function."""
        chance = self.rng.random()
        if self.rng.random() < 0.2:
            part = constants_as_nodes(part)
        if chance < 0.15:
            part = wrap_in_if(part)
            self.label = f"{self.label} [If]"
        elif chance < 0.27:
            part = in_a_loop(part, self.rng)
            self.label = f"{self.label} [Loop]"
        elif chance < 0.31:
            part = wrap_in_if(in_a_loop(part, self.rng))
            self.label = f"{self.label} [Loop in If]"
        elif chance < 0.38:
            part = inside_function(part)
            self.label = f"{self.label} [function]"
            part.graph.node[0].op_type = f"{self.prefix}{part.graph.node[0].op_type}"
        return part

    # -- where inputs come from

    def source(self, value: ValueInfoProto) -> str:
        """The name of the value that an input of the snippet reads."""
        elem_type = value.type.tensor_type.elem_type
        dims = dims_of(value)
        is_free = self.is_free()
        seen = self.visible(elem_type, is_free)
        chance = self.rng.random()
        fitting = [v for v in seen if self.fits(v, elem_type, dims)]
        if fitting and chance < 0.8:
            return self.chosen(fitting, dims, is_free)
        other = [v for v in seen if v.elem_type in FLOATS and not v.is_input]
        if is_free and other and elem_type in FLOATS and chance < 0.95:
            other_value = self.rng.choice(other)
            self.used.add(other_value.name)
            return self.fitted(other_value, elem_type, dims)
        return self.fresh(elem_type, dims)

    def visible(self, elem_type: int, is_free: bool) -> list[Value]:
        """The values that an input of this type may read, directly or after a conversion."""
        return [
            v
            for v in self.glued.values
            if v.is_tame and (is_free or v.is_input or elem_type not in FLOATS)
        ]

    def is_free(self) -> bool:
        """Whether the snippet may read computed floats."""
        # onnxruntime may round float16 between any two nodes
        has_halves = any(v.elem_type == TensorProto.FLOAT16 for v in self.glued.values)
        return (self.glued.sharp_anywhere and not has_halves) or not self.snippet.is_sharp

    def chosen(self, fitting: Sequence[Value], dims: Sequence[Dim], is_free: bool) -> str:
        """A random value among those that fit directly, usually a computed one."""
        computed = [v for v in fitting if not v.is_input]
        value = self.rng.choice(computed if computed and self.rng.random() < 0.8 else fitting)
        self.binding.update(self.unified(dims, value.dims) or {})
        self.used.add(value.name)
        return self.decorated(value) if is_free and self.rng.random() < 0.2 else value.name

    def fits(self, value: Value, elem_type: int, dims: Sequence[Dim]) -> bool:
        return value.elem_type == elem_type and self.unified(dims, value.dims) is not None

    def unified(self, wanted: Sequence[Dim], given: Sequence[Dim]) -> dict[str, Dim] | None:
        """The values of an input's symbols for which this shape fits. None if it does not fit."""
        if len(wanted) != len(given):
            return None
        binding = dict(self.binding)
        for want, have in zip(wanted, given, strict=True):
            if have == "" or want == "":
                return None
            if isinstance(want, int):
                if want != have:
                    return None
            elif binding.setdefault(want, have) != have or self.snippet.sizes.get(want) not in (
                None if isinstance(have, str) else self.snippet.sizes.get(want),
                have if isinstance(have, int) else self.sizes.get(have),
            ):
                return None
        return binding

    def fresh(self, elem_type: int, dims: Sequence[Dim]) -> str:
        """A new graph input. Most of its free symbols are also symbols of other inputs."""
        name = self.name("in")
        for dim in dims:
            if not isinstance(dim, str) or not dim or dim in self.binding:
                continue
            own = f"{self.prefix}{dim}"
            if dim in self.snippet.sizes:
                self.sizes[own] = self.snippet.sizes[dim]
                self.binding[dim] = own if self.rng.random() < 0.7 else self.snippet.sizes[dim]
            else:
                self.binding[dim] = self.rng.choices([dim, own, 2, 3, 1], [60, 25, 6, 6, 3])[0]
        shape = [self.binding[dim] if isinstance(dim, str) and dim else dim or None for dim in dims]
        self.model.graph.input.append(helper.make_tensor_value_info(name, elem_type, shape))
        return name

    def decorated(self, value: Value) -> str:
        """The value after operators that keep its type and shape."""
        one = np.ones((), value.array.dtype)
        perm = list(range(len(value.dims)))[::-1]
        ways: list[Callable[[str], str]] = [
            lambda x: self.op("Identity", x),
            lambda x: self.op("Transpose", self.op("Transpose", x, perm=perm), perm=perm),
            lambda x: self.op("Reshape", x, self.op("Shape", x)),
            lambda x: self.op("Dropout", x),
        ]
        if value.elem_type in FLOATS:
            ways += [
                lambda x: self.op("Neg", self.op("Neg", x)),
                lambda x: self.op("Add", x, self.const(one * 0)),
                lambda x: self.op("Mul", self.const(one * 2), x),
                lambda x: self.op(
                    "Cast", self.op("Cast", x, to=TensorProto.DOUBLE), to=value.elem_type
                ),
                *(
                    lambda x, name=name: self.op(name, x)
                    for name in ("Relu", "Sigmoid", "Tanh", "Abs")
                ),
            ]
        return self.rng.choice(ways)(value.name)

    def fitted(self, value: Value, elem_type: int, dims: Sequence[Dim]) -> str:
        """A value of another type or shape, converted so that it fits."""
        x = (
            value.name
            if value.elem_type == elem_type
            else self.op("Cast", value.name, to=elem_type)
        )
        if (order := self.fitting_order(value, dims)) is not None:
            return self.op("Transpose", x, perm=order)
        if self.rng.random() < 0.4:
            return self.op("Add", self.fresh(elem_type, dims), self.op("ReduceMean", x, keepdims=0))
        for dim in dims:
            if isinstance(dim, str):
                self.binding.setdefault(dim, self.snippet.sizes.get(dim, 2))
        shape = [self.binding[dim] if isinstance(dim, str) else dim for dim in dims]
        if any(isinstance(dim, str) for dim in shape):
            return self.op("Add", self.fresh(elem_type, dims), self.op("ReduceMax", x, keepdims=0))
        flat = self.op("Reshape", x, self.const(np.array([-1])))
        wrapped = self.op("Mod", self.const(np.arange(int(np.prod(shape)))), self.op("Size", flat))
        return self.op(
            "Reshape", self.op("Gather", flat, wrapped), self.const(np.array(shape, np.int64))
        )

    def fitting_order(self, value: Value, dims: Sequence[Dim]) -> list[int] | None:
        """A permutation of a value's axes, other than the identity, with which its shape fits."""
        if not len(dims) == len(value.dims) < 5:
            return None
        for order in list(itertools.permutations(range(len(value.dims))))[1:]:
            if (binding := self.unified(dims, [value.dims[i] for i in order])) is not None:
                self.binding.update(binding)
                return list(order)
        return None

    def op(self, op: str, *inputs: str, **attributes: Any) -> str:
        name = self.name("glue")
        self.model.graph.node.append(helper.make_node(op, inputs, [name], **attributes))
        return name

    def const(self, array: np.ndarray) -> str:
        name = self.name("const")
        self.model.graph.initializer.append(numpy_helper.from_array(np.asarray(array), name))
        return name

    def name(self, kind: str) -> str:
        self._count += 1
        return f"{self.prefix}{kind}{self._count}"

    # -- names and symbols

    def renamed(self, graph: GraphProto) -> GraphProto:
        copy = GraphProto()
        copy.CopyFrom(graph)
        self.rename(copy)
        return copy

    def rename(self, graph: GraphProto) -> None:
        for node in graph.node:
            node.name = f"{self.prefix}{node.name}" if node.name else ""
            node.input[:] = [self.own(name) for name in node.input]
            node.output[:] = [self.own(name) for name in node.output]
            for body in bodies_of(node):
                self.rename(body)
        for tensor in graph.initializer:
            tensor.name = self.own(tensor.name)
        for value in [*graph.input, *graph.output, *graph.value_info]:
            value.name = self.own(value.name)
            self.bind(value)

    def bind(self, value: ValueInfoProto) -> None:
        """Replace the symbols of a shape by their values."""
        for dim in value.type.tensor_type.shape.dim:
            if dim.dim_param:
                bound = self.binding.setdefault(dim.dim_param, f"{self.prefix}{dim.dim_param}")
                if isinstance(bound, int):
                    dim.dim_value = bound
                else:
                    dim.dim_param = bound

    def own(self, name: str) -> str:
        return self.names.setdefault(name, f"{self.prefix}{name}") if name else ""


def bodies_of(node: onnx.NodeProto) -> Iterator[GraphProto]:
    for attribute in node.attribute:
        if attribute.HasField("g"):
            yield attribute.g
        yield from attribute.graphs


def dims_of(value: ValueInfoProto) -> list[Dim]:
    shape = value.type.tensor_type.shape
    return [d.dim_value if d.HasField("dim_value") else d.dim_param for d in shape.dim]


def in_a_loop(model: ModelProto, rng: random.Random) -> ModelProto:
    """The whole graph as the body of a Loop. One value is carried to the next iteration if
    possible, and all others are stacked.
    """
    result = copy_of(model)
    graph = result.graph
    pairs = [(x, y) for x in graph.input for y in graph.output if x.type == y.type]
    carried = [rng.choice(pairs)] if pairs and rng.random() < 0.8 else []
    ends = [end for _, end in carried]
    stacked = [value for value in graph.output if value not in ends]
    body = _loop_body(graph, carried, stacked)
    del graph.node[:], graph.value_info[:]
    trips = rng.choice([1, 2, 3])
    graph.initializer.append(numpy_helper.from_array(np.array(trips), "trips"))
    inputs = ["trips", "", *(start.name for start, _ in carried)]
    outputs = [value.name for value in ends + stacked]
    graph.node.append(helper.make_node("Loop", inputs, outputs, body=body))
    for value in stacked:
        elem_type = value.type.tensor_type.elem_type
        value.CopyFrom(
            helper.make_tensor_value_info(value.name, elem_type, ["trips", *dims_of(value)])
        )
    return result


def _loop_body(
    graph: GraphProto,
    carried: Sequence[tuple[ValueInfoProto, ValueInfoProto]],
    stacked: Sequence[ValueInfoProto],
) -> GraphProto:
    """The graph as the body of a Loop. At most one input is carried on as an output; other outputs
    are stacked.
    """
    body = GraphProto(name="body")
    body.node.extend(graph.node)
    body.value_info.extend(graph.value_info)
    body.input.append(helper.make_tensor_value_info("iteration", TensorProto.INT64, []))
    body.input.append(helper.make_tensor_value_info("go_on", TensorProto.BOOL, []))
    body.node.append(helper.make_node("Identity", ["go_on"], ["goes_on"]))
    body.output.append(helper.make_tensor_value_info("goes_on", TensorProto.BOOL, []))
    for start, end in carried:
        inner = body.input.add()
        inner.CopyFrom(start)
        inner.name = "carried"
        for node in body.node:
            _replace(node, start.name, "carried")
        body.output.append(end)
    body.output.extend(stacked)
    _rename_results(body)
    return body


def _rename_results(body: GraphProto) -> None:
    """Give the results of the nodes of a body new names."""
    renamed = {name: f"{name}_inside" for node in body.node for name in node.output if name}
    for node in body.node:
        for old, new in renamed.items():
            _replace(node, old, new)
        node.output[:] = [renamed.get(name, name) for name in node.output]
    for value in [*body.output, *body.value_info]:
        value.name = renamed.get(value.name, value.name)


def _replace(node: onnx.NodeProto, old: str, new: str) -> None:
    """Replace a value in the inputs of a node and of the nodes in its subgraphs."""
    node.input[:] = [new if name == old else name for name in node.input]
    for attribute in node.attribute:
        for inner in attribute.g.node:
            _replace(inner, old, new)
        for value in attribute.g.output if attribute.HasField("g") else ():
            if value.name == old:
                value.name = new


def generated(rng: random.Random, stock: dict[str, list[Snippet]], sharp_anywhere: bool) -> Glued:
    """A model of three to nine snippets. All passes have the same chance."""
    glued = Glued(rng, rng.choice(OPSETS), sharp_anywhere)
    wanted = rng.randint(3, 9)
    for snippet in itertools.islice(_drawn(rng, stock, glued.opset), 6 * wanted):
        glued.add(snippet)
        if len(glued.parts) == wanted:
            break
    return glued


def _drawn(rng: random.Random, stock: dict[str, list[Snippet]], opset: int) -> Iterator[Snippet]:
    usable = {name: [s for s in found if s.opset <= opset] for name, found in stock.items()}
    fires, stays = (
        [n for n, found in usable.items() if found and n.endswith(" stays") is s]
        for s in (False, True)
    )
    while fires:
        yield rng.choice(usable[rng.choice(stays if stays and rng.random() < 0.2 else fires)])
