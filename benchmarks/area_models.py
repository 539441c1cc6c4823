"""Random areas, and inputs to run them. Everything follows from a seed."""

from __future__ import annotations

import random
from dataclasses import dataclass, field

import numpy as np
import onnx
from areas import area_of_graph, random_array
from onnx import TensorProto, helper

from fusionc.graph_kernel.area import Area

F32 = TensorProto.FLOAT
F16 = TensorProto.FLOAT16
F64 = TensorProto.DOUBLE
I32 = TensorProto.INT32
I64 = TensorProto.INT64
BOOL = TensorProto.BOOL
_SIZES = [0, 1, 1, 2, 3, 4, 5, 7, 8, 12, 16, 17, 33, 64, 100]
_LARGEST = 60_000  # elements
_UNARY = [
    "Abs", "Neg", "Exp", "Log", "Sqrt", "Tanh", "Sigmoid", "Erf", "Relu", "LeakyRelu", "Elu", "Softplus", "Reciprocal",
    "Gelu", "HardSigmoid", "HardSwish", "Clip", "Identity", "Softsign", "Celu", "Selu",
]  # fmt: skip
# operators whose results jump: only exact numbers may be their inputs
_STEPS = ["Floor", "Ceil", "Round", "Sign", "IsNaN", "IsInf"]
_REDUCE = [
    "ReduceSum",
    "ReduceMean",
    "ReduceMax",
    "ReduceMin",
    "ReduceL1",
    "ReduceL2",
    "ReduceSumSquare",
]
_REDUCE_OF_INTEGERS = ["ReduceSum", "ReduceMax", "ReduceMin"]
_KINDS = {  # kinds of operators, and how often each is chosen
    "unary": 5, "binary": 6, "compare": 1, "where": 2, "cast": 1, "reduce": 2, "norm": 2, "move": 4,
}  # fmt: skip
_MOVES = [
    "Transpose",
    "Reshape",
    "Slice",
    "Concat",
    "Split",
    "Unsqueeze",
    "Squeeze",
    "Gather",
    "Expand",
    "Flatten",
]


@dataclass
class _Value:
    name: str
    dtype: int
    shape: tuple[int, ...]
    exact: bool  # computed without rounding


@dataclass
class Maker:
    """Makes one area. `sizes` are the sizes of its symbols when it runs."""

    seed: str
    rng: random.Random = field(init=False)
    sizes: dict[str, int] = field(default_factory=dict)
    nodes: list[onnx.NodeProto] = field(default_factory=list)
    values: list[_Value] = field(default_factory=list)
    inputs: list[_Value] = field(default_factory=list)
    constants: dict[str, np.ndarray] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.rng = random.Random(self.seed)

    def area(self, name: str) -> Area:
        rng = self.rng
        self.base = self._shape()
        self.float = rng.choices([F32, F16, F64], [8, 1, 1])[0]
        for _ in range(rng.randint(1, 3)):
            self._input(self.float, self._similar(self.base))
        size = rng.randint(1, 14)
        while len(self.nodes) < size:
            self._grow()
        outputs = self._outputs()
        graph = helper.make_graph(
            self.nodes,
            name,
            [
                helper.make_tensor_value_info(v.name, v.dtype, self._symbols(v.shape))
                for v in self.inputs
            ],
            [helper.make_tensor_value_info(v.name, v.dtype, None) for v in outputs],
        )
        return area_of_graph(graph, self.constants, name, 22)

    def _shape(self) -> tuple[int, ...]:
        """A shape with at most `_LARGEST` elements."""
        rank = self.rng.choice([0, 1, 2, 2, 3, 3, 4])
        while True:
            shape = tuple(self.rng.choice(_SIZES) for _ in range(rank))
            if np.prod(shape) <= _LARGEST:
                return shape

    def _outputs(self) -> list[_Value]:
        """All computed values that no node reads, and a few others."""
        used = {name for node in self.nodes for name in node.input}
        computed = [v for v in self.values if v not in self.inputs]
        return [v for v in computed if v.name not in used or self.rng.random() < 0.08]

    def feeds(self, seed: int) -> dict[str, np.ndarray]:
        rng = np.random.default_rng([seed, *self.seed.encode()])
        edges = rng.random() < 0.4
        return {v.name: random_array(rng, v.dtype, v.shape, edges=edges) for v in self.inputs}

    def _symbols(self, shape: tuple[int, ...]) -> list[int | str]:
        dims: list[int | str] = []
        for size in shape:
            how = self.rng.random()
            symbol = f"N{size}" if how < 0.4 else f"U{len(self.sizes)}"
            if how < 0.7:
                self.sizes[symbol] = size
            dims.append(symbol if how < 0.7 else size)
        return dims

    def _similar(self, shape: tuple[int, ...]) -> tuple[int, ...]:
        """A shape that broadcasts to another one."""
        if self.rng.random() < 0.6:
            return shape
        kept = shape[self.rng.randint(0, len(shape)) :] if self.rng.random() < 0.5 else shape
        return tuple(1 if self.rng.random() < 0.3 else size for size in kept)

    def _input(self, dtype: int, shape: tuple[int, ...]) -> _Value:
        value = _Value(f"x{len(self.values)}", dtype, shape, True)
        self.inputs.append(value)
        self.values.append(value)
        return value

    def _constant(self, array: np.ndarray) -> str:
        name = f"c{len(self.constants)}"
        self.constants[name] = array
        return name

    def _operand(self, dtype: int, shape: tuple[int, ...]) -> tuple[str, bool]:
        """A value that can be broadcast to a shape: an existing value, a new input or a constant."""
        rng = self.rng
        fitting = [v for v in self.values if v.dtype == dtype and _fits(v.shape, shape)]
        if fitting and rng.random() < 0.6:
            value = rng.choice(fitting)
            return value.name, value.exact
        if rng.random() < 0.5 or len(self.inputs) > 6:
            array = random_array(
                np.random.default_rng(rng.randrange(2**31)),
                dtype,
                self._similar(shape)[-1:],
                edges=False,
            )
            return self._constant(array), True
        return self._input(dtype, self._similar(shape)).name, True

    def _add(
        self,
        op: str,
        inputs: list[str],
        outs: list[tuple[int, tuple[int, ...]]],
        exact: bool,
        **attributes: object,
    ) -> None:
        names = [f"v{len(self.values) + k}" for k in range(len(outs))]
        self.nodes.append(helper.make_node(op, inputs, names, **attributes))
        self.values += [
            _Value(n, dtype, shape, exact) for n, (dtype, shape) in zip(names, outs, strict=True)
        ]

    def _grow(self) -> None:
        rng = self.rng
        x = rng.choice(self.values[-4:]) if rng.random() < 0.8 else rng.choice(self.values)
        kind = rng.choices(list(_KINDS), list(_KINDS.values()))[0]
        if kind == "move":
            self._move(x)
        elif kind == "cast":
            self._cast(x)
        elif x.dtype == BOOL:
            self._compute_with_boolean(x, kind)
        else:
            self._compute_with_numbers(x, kind)

    def _cast(self, x: _Value) -> None:
        to = self.rng.choice([self.float, I32, I64, BOOL, F32])
        rounds = x.dtype == self.float and to in (I32, I64, BOOL)
        if rounds and not (x.exact and x.shape):
            return
        if rounds and to != BOOL:
            x = self._castable(x)
        self._add("Cast", [x.name], [(to, x.shape)], x.exact, to=to)

    def _castable(self, x: _Value) -> _Value:
        """Floats as numbers that every integer type has: from -5 to 5, with 0 instead of NaN."""
        out = [(x.dtype, x.shape)]
        self._add("Clip", [x.name, self._scalar(x.dtype, -5), self._scalar(x.dtype, 5)], out, True)
        clipped = self.values[-1]
        self._add("IsNaN", [clipped.name], [(BOOL, x.shape)], True)
        is_nan = self.values[-1]
        self._add("Where", [is_nan.name, self._scalar(x.dtype, 0), clipped.name], out, True)
        return self.values[-1]

    def _compute_with_boolean(self, x: _Value, kind: str) -> None:
        if kind == "where":
            one = self._operand(self.float, x.shape)
            two = self._operand(self.float, x.shape)
            out = [(self.float, x.shape)]
            self._add("Where", [x.name, one[0], two[0]], out, one[1] and two[1])
        elif kind == "binary":
            other, exact = self._operand(BOOL, x.shape)
            op = self.rng.choice(["And", "Or", "Xor"])
            self._add(op, [x.name, other], [(BOOL, x.shape)], x.exact and exact)
        else:
            self._add("Not", [x.name], [(BOOL, x.shape)], x.exact)

    def _compute_with_numbers(self, x: _Value, kind: str) -> None:
        """An operator of this kind, or a unary one if the kind does not fit the value."""
        is_float = x.dtype == self.float
        has_elements = bool(x.shape) and 0 not in x.shape
        if kind == "where" and not is_float:
            kind = "binary"
        fits = {
            "reduce": has_elements and x.dtype in (self.float, I32),
            "norm": has_elements and is_float,
            "unary": is_float,
        }
        if not fits.get(kind, True):
            kind = "unary"
        if fits.get(kind, True):
            ways = {
                "binary": self._binary, "compare": self._compare, "where": self._where,
                "reduce": self._reduce, "norm": self._normalize, "unary": self._unary,
            }  # fmt: skip
            ways[kind](x)

    def _binary(self, x: _Value) -> None:
        rng = self.rng
        other, exact = self._operand(x.dtype, x.shape)
        ops = ["Add", "Sub", "Mul", "Max", "Min"]
        if x.dtype == self.float:
            ops += ["Div", "Sum", "Mean", "PRelu"]
        op = rng.choice(ops)
        if op in ("Max", "Min") and x.dtype not in (F32, F64, I32, I64, F16):
            op = "Add"
        pair = [x.name, other] if op == "PRelu" or rng.random() < 0.7 else [other, x.name]
        self._add(op, pair, [(x.dtype, x.shape)], x.exact and exact and op in ("Max", "Min"))

    def _compare(self, x: _Value) -> None:
        other, exact = self._operand(x.dtype, x.shape)
        if x.exact and exact:
            op = self.rng.choice(["Less", "Greater", "LessOrEqual", "GreaterOrEqual", "Equal"])
            self._add(op, [x.name, other], [(BOOL, x.shape)], True)

    def _where(self, x: _Value) -> None:
        condition, _ = self._operand(BOOL, x.shape)
        other, exact = self._operand(x.dtype, x.shape)
        self._add("Where", [condition, x.name, other], [(x.dtype, x.shape)], x.exact and exact)

    def _normalize(self, x: _Value) -> None:
        rng = self.rng
        out = [(x.dtype, x.shape)]
        if rng.random() < 0.6 or x.dtype == F16:
            op = rng.choice(["Softmax", "Softmax", "LogSoftmax"])
            axis = rng.choice([-1, -1, rng.randrange(len(x.shape))])
            self._add(op, [x.name], out, False, axis=axis)
            return
        dtype = helper.tensor_dtype_to_np_dtype(x.dtype)
        scale = self._constant(np.linspace(0.5, 2, x.shape[-1]).astype(dtype))
        self._add("LayerNormalization", [x.name, scale], out, False, axis=-1)

    def _scalar(self, dtype: int, value: float) -> str:
        return self._constant(np.array(value, helper.tensor_dtype_to_np_dtype(dtype)))

    def _unary(self, x: _Value) -> None:
        rng = self.rng
        if x.exact and rng.random() < 0.15:
            op = rng.choice(_STEPS)
            self._add(op, [x.name], [(BOOL if op.startswith("Is") else x.dtype, x.shape)], True)
            return
        op = rng.choice(_UNARY)
        inputs = [x.name]
        if op == "Clip":
            inputs += [self._scalar(x.dtype, -rng.random()), self._scalar(x.dtype, rng.random())]
        if op in ("Celu", "Selu", "Elu") and x.dtype != F32:
            op = "Relu"
        if rng.random() < 0.1:
            self._add(
                "Pow",
                [x.name, self._scalar(x.dtype, rng.choice([2, 3, 0.5, 1.5, -1]))],
                [(x.dtype, x.shape)],
                False,
            )
            return
        exact = x.exact and op in ("Abs", "Neg", "Relu", "Identity", "Clip")
        self._add(op, inputs, [(x.dtype, x.shape)], exact)

    def _reduce(self, x: _Value) -> None:
        op = self.rng.choice(_REDUCE if x.dtype == self.float else _REDUCE_OF_INTEGERS)
        rank = len(x.shape)
        axes = (
            [rank - 1]
            if self.rng.random() < 0.6
            else sorted(self.rng.sample(range(rank), self.rng.randint(1, rank)))
        )
        keep = self.rng.random() < 0.7
        shape = tuple(1 if k in axes else n for k, n in enumerate(x.shape))
        shape = shape if keep else tuple(n for k, n in enumerate(x.shape) if k not in axes)
        self._add(
            op,
            [x.name, self._constant(np.array(axes))],
            [(x.dtype, shape)],
            False,
            keepdims=int(keep),
        )

    def _move(self, x: _Value) -> None:
        """An operator that moves elements, or an Identity if it does not fit the value."""
        rank = len(x.shape)
        op = self.rng.choice(_MOVES)
        axis = self.rng.randrange(rank) if rank else 0
        size = x.shape[axis] if rank else 0
        fits = {
            "Reshape": 0 not in x.shape,
            "Split": size > 1,
            "Unsqueeze": rank < 5,
            "Squeeze": size == 1,
            "Gather": size > 0,
            "Expand": rank > 0 and np.prod(x.shape) * 3 < _LARGEST,
        }
        ways = {
            "Transpose": self._transpose, "Reshape": self._reshape, "Slice": self._slice,
            "Concat": self._concat, "Split": self._split, "Unsqueeze": self._unsqueeze,
            "Squeeze": self._squeeze, "Gather": self._gather, "Expand": self._expand,
            "Flatten": self._flatten,
        }  # fmt: skip
        if fits.get(op, rank > 0):
            ways[op](x, axis)
        else:
            self._add("Identity", [x.name], [(x.dtype, x.shape)], x.exact)

    def _transpose(self, x: _Value, axis: int) -> None:
        rank = len(x.shape)
        perm = self.rng.sample(range(rank), rank)
        out = [(x.dtype, tuple(x.shape[a] for a in perm))]
        self._add("Transpose", [x.name], out, x.exact, perm=perm)

    def _reshape(self, x: _Value, axis: int) -> None:
        rng = self.rng
        shape = _reshaped(rng, x.shape)
        written = [
            -1 if k == rng.randrange(-len(shape), len(shape)) else n for k, n in enumerate(shape)
        ]
        written = written if written.count(-1) < 2 else list(shape)
        target = self._constant(np.array(written, np.int64))
        self._add("Reshape", [x.name, target], [(x.dtype, shape)], x.exact)

    def _slice(self, x: _Value, axis: int) -> None:
        rng = self.rng
        start = rng.randint(-3, 3)
        step = rng.choice([1, 1, 1, 2, -1])
        start = max(start, -x.shape[axis]) if step < 0 else start  # here ONNX and Python agree
        end = rng.choice([2**63 - 1, -1, 4]) if step > 0 else -(2**63)
        taken = slice(start, end if step > 0 else None, step)
        length = len(range(*taken.indices(x.shape[axis])))
        arrays = [self._constant(np.array([n])) for n in (start, end, axis, step)]
        shape = _with_size(x.shape, axis, length)
        self._add("Slice", [x.name, *arrays], [(x.dtype, shape)], x.exact)

    def _concat(self, x: _Value, axis: int) -> None:
        rng = self.rng
        alike = [v for v in self.values if v.dtype == x.dtype and _alike(v.shape, x.shape, axis)]
        parts = [x, *rng.sample(alike, min(len(alike), rng.randint(0, 2)))]
        shape = _with_size(x.shape, axis, sum(v.shape[axis] for v in parts))
        if np.prod(shape) <= _LARGEST:
            names = [v.name for v in parts]
            exact = all(v.exact for v in parts)
            self._add("Concat", names, [(x.dtype, shape)], exact, axis=axis)

    def _split(self, x: _Value, axis: int) -> None:
        first = self.rng.randrange(1, x.shape[axis])
        lengths = [first, x.shape[axis] - first]
        outs = [(x.dtype, _with_size(x.shape, axis, n)) for n in lengths]
        parts = self._constant(np.array(lengths))
        self._add("Split", [x.name, parts], outs, x.exact, axis=axis)

    def _unsqueeze(self, x: _Value, axis: int) -> None:
        shape = (*x.shape[:axis], 1, *x.shape[axis:])
        axes = self._constant(np.array([axis]))
        self._add("Unsqueeze", [x.name, axes], [(x.dtype, shape)], x.exact)

    def _squeeze(self, x: _Value, axis: int) -> None:
        axes = self._constant(np.array([axis]))
        self._add("Squeeze", [x.name, axes], [(x.dtype, _with_size(x.shape, axis))], x.exact)

    def _gather(self, x: _Value, axis: int) -> None:
        at = self._constant(np.array(self.rng.randrange(x.shape[axis])))
        out = [(x.dtype, _with_size(x.shape, axis))]
        self._add("Gather", [x.name, at], out, x.exact, axis=axis)

    def _expand(self, x: _Value, axis: int) -> None:
        shape = (self.rng.randint(1, 3), *x.shape)
        target = self._constant(np.array([shape[0], *[1] * len(x.shape)]))
        self._add("Expand", [x.name, target], [(x.dtype, shape)], x.exact)

    def _flatten(self, x: _Value, axis: int) -> None:
        shape = (int(np.prod(x.shape[:axis])), int(np.prod(x.shape[axis:])))
        self._add("Flatten", [x.name], [(x.dtype, shape)], x.exact, axis=axis)


def _with_size(shape: tuple[int, ...], axis: int, *size: int) -> tuple[int, ...]:
    """The shape with another size for one axis, or without this axis."""
    return (*shape[:axis], *size, *shape[axis + 1 :])


def _fits(shape: tuple[int, ...], whole: tuple[int, ...]) -> bool:
    return len(shape) <= len(whole) and all(
        n in (1, m) for n, m in zip(reversed(shape), reversed(whole), strict=False)
    )


def _alike(one: tuple[int, ...], other: tuple[int, ...], axis: int) -> bool:
    return len(one) == len(other) and all(
        a == b for k, (a, b) in enumerate(zip(one, other, strict=True)) if k != axis
    )


def _reshaped(rng: random.Random, shape: tuple[int, ...]) -> tuple[int, ...]:
    """The shape with several axes merged, or with one axis split."""
    if len(shape) > 1 and rng.random() < 0.5:
        axis = rng.randrange(len(shape) - 1)
        return (*shape[:axis], shape[axis] * shape[axis + 1], *shape[axis + 2 :])
    for axis in rng.sample(range(len(shape)), len(shape)):
        divisors = [d for d in range(2, shape[axis]) if shape[axis] % d == 0]
        if divisors:
            divisor = rng.choice(divisors)
            return (*shape[:axis], divisor, shape[axis] // divisor, *shape[axis + 1 :])
    return (*shape, 1)
