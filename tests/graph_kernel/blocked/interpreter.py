"""Runs a blocked program from its C tables: each step with numpy, and with the same memory layout as
the runtime.

Writing to a storage discards other storages in the same slot, and elements that were never written
are NaN. A step that reads too late or too early therefore gives wrong results.
"""

from __future__ import annotations

import math
import re
from collections import ChainMap
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from importlib import import_module
from pathlib import Path
from typing import Any

import numpy as np

from fusionc.graph_kernel.blocked.kinds import kind_files, step_kinds

Array = np.ndarray[Any, Any]
FOLLOWERS = {kind.enumerator() for kind in step_kinds() if kind.keeps_channels}  # in a chain
# convolutions of bfloat16, and those that read it
NARROW = ("NARROW_CONV", "NARROW_PRODUCT", "NARROW_FIRST", "NARROW_TRANSPOSED")
READ_NARROW = ("NARROW_CONV", "NARROW_PRODUCT", "NARROW_DEPTHWISE", "NARROW_TRANSPOSED")
CONVOLUTIONS = (
    *("CONV", "WINOGRAD", "DEPTHWISE", "FIRST", "TRANSPOSED", "PRODUCT", "GROUPED"),
    *NARROW,
    "NARROW_DEPTHWISE",
)
_NARROW_BYTES = 2
_erf = np.vectorize(math.erf, otypes=[np.float64])
Activation = Callable[[Array, float, float], Array]


def _sigmoid(x: Array) -> Array:
    return 1 / (1 + np.exp(-x))


def _tanh_gelu(x: Array) -> Array:
    return 0.5 * x * (1 + np.tanh(math.sqrt(2 / math.pi) * (x + 0.044715 * x**3)))


ACTIVATIONS: dict[int, Activation] = {
    0: lambda x, a, b: x,
    1: lambda x, a, b: np.maximum(x, 0),
    2: lambda x, a, b: np.clip(x, a, b),
    3: lambda x, a, b: np.where(x < 0, a * x, x),
    4: lambda x, a, b: _sigmoid(x),
    5: lambda x, a, b: np.clip(a * x + b, 0, 1),
    6: lambda x, a, b: x * np.clip(x / 6 + 0.5, 0, 1),
    7: lambda x, a, b: x * _sigmoid(a * x),
    8: lambda x, a, b: 0.5 * x * (1 + _erf(x / math.sqrt(2))),
    9: lambda x, a, b: np.tanh(x),
    10: lambda x, a, b: _tanh_gelu(x),
    11: lambda x, a, b: x * np.clip(a * x + b, 0, 1),
    12: lambda x, a, b: np.where(np.abs(x) >= 65520, x * np.inf, x),
}


@dataclass
class CStep:
    """A gb_step. `own` are the fields that only its kind has."""

    kind: str
    out: int
    source: int
    other: int
    third: int
    tensor: int
    weights: int
    bias: int
    activation: int
    after: int
    alpha: float
    beta: float
    chained: int
    group: int
    kernel: Sequence[int]
    stride: Sequence[int]
    dilation: Sequence[int]
    pads: Sequence[int]
    own: dict[str, Any]


@dataclass
class CProgram:
    """A gb_program as its C text has it."""

    storages: list[list[int]]  # slot, halo, rows, channels, bytes
    buffers: list[list[int]]  # storage, planar, first, channels
    steps: list[CStep]
    tables: list[Array]
    slots: int
    ranks: list[int]  # of the outputs

    @property
    def kinds(self) -> list[str]:
        """The kinds of the steps, in order."""
        return [step.kind for step in self.steps]


def to_bfloat16(x: Array) -> Array:
    """The nearest bfloat16 numbers, with ties to even. Subnormal numbers become 0, as on the
    processor.
    """
    bits = np.asarray(x, np.float32).view(np.uint32)
    rounded = (bits + 0x7FFF + (bits >> 16 & 1)) & 0xFFFF0000
    rounded = np.where(bits & 0x7F800000, rounded, bits & 0x80000000).astype(np.uint32)
    return np.where(np.isnan(x), np.nan, rounded.view(np.float32)).astype(np.float64)


def programs_in(text: str, is_narrow: bool = False) -> dict[str, CProgram]:
    """The programs in a C text, by the names of their operators: the float32 programs, or those
    with bfloat16.
    """
    found = {}
    entry = rf"gk_kernel {'narrow' if is_narrow else 'op'}_(\w+) = \{{[^{{}}]*&(\w+)_program,"
    for name, function in re.findall(entry, text):
        rows = {
            what: _numbers(re.search(rf"{function}_{what}\[\] = \{{(.*?)\}};", text, re.DOTALL)[1])
            for what in ("storages", "buffers")
        }
        tables = [
            np.array(_numbers("{" + elements + "}")[0], np.float32)
            for elements in re.findall(rf"float {function}_t\d+\[\] = \{{(.*?)\}};", text)
        ]
        counts = _numbers("{" + re.search(rf"{function}_tables, ([\d, ]+)\}};", text)[1] + "}")[0]
        ranks = _numbers(
            "{"
            + re.search(rf"{function.removesuffix('_narrow')}_ranks\[\] = \{{([\d, ]+)\}};", text)[
                1
            ]
            + "}"
        )[0]
        inputs = int(re.search(rf'op_{name} = \{{"{name}", (\d+)', text)[1])
        written = re.search(rf"{function}_steps\[\] = \{{(.*?)\}};", text, re.DOTALL)[1]
        steps = [_step(row) for row in _rows(written)]
        program = CProgram(
            rows["storages"], rows["buffers"], steps, tables, counts[1], ranks[inputs:]
        )
        assert counts == [
            len(program.storages),
            program.slots,
            len(program.buffers),
            len(program.steps),
        ]
        found[name] = program
    return found


def _rows(text: str) -> list[str]:
    return re.findall(r"\{([^{}]*(?:\{[^{}]*\}[^{}]*)*)\}", text)


def _numbers(text: str) -> list[list[Any]]:
    return [_items(row) for row in _rows(text)]


def _items(row: str) -> list[Any]:
    return [_number(item) for item in re.findall(r"[^\s,{}]+", row)]


def _number(item: str) -> float | int:
    if item.strip("-") in ("NAN", "INFINITY"):
        return float(item.lower())
    if "x" in item:
        return float.fromhex(item.removesuffix("f"))
    return float(item.removesuffix("f")) if "." in item else int(item)


def _step(row: str) -> CStep:
    kind, _, rest = row.partition(", ")
    common = _items(rest.partition(", .")[0])
    own = {}
    for name, value in re.findall(r"\.(\w+) = (\{[^{}]*\}|[^,{}]+)", rest):
        items = _items(value)
        own[name] = items if "{" in value else items[0]
    assert len(common) == 23
    pairs = (common[13:15], common[15:17], common[17:19], common[19:])
    return CStep(kind.removeprefix("GB_"), *common[:13], *pairs, own)


class Interpreter:
    """Runs a program. `tensors` are the inputs of its operator."""

    def __init__(self, program: CProgram, tensors: Sequence[Array]) -> None:
        self.program = program
        self.tensors = [*tensors, *program.tables]
        self.storages: dict[int, Array] = {}
        self.in_slot: dict[int, int] = {}
        self.outputs: dict[int, Array] = {}

    def run(self) -> list[Array]:
        with np.errstate(all="ignore"):
            for number, step in enumerate(self.program.steps):
                self._check_chain(self.program.steps[number : number + 1 + step.chained])
                self._do(step)
        return [self.outputs[k] for k in range(len(self.outputs))]

    def _check_chain(self, steps: Sequence[CStep]) -> None:
        """Check that the steps of a chain may run block by block: some blocks of their results may
        be finished before others are begun.
        """
        head, *others = steps
        if not others:
            return
        assert head.kind in ("CONV", "FIRST") and head.group == 1 and len(steps) == 1 + head.chained
        buffers = self.program.buffers
        made = [head.out]
        for step in others:
            assert step.kind in FOLLOWERS and not step.chained
            assert step.source in made and buffers[step.out][3] == buffers[head.out][3]
            assert max(step.other, step.third) < 0
            made.append(step.out)
        self._check_memory(head, made)

    def _check_memory(self, head: CStep, made: Sequence[int]) -> None:
        """Check that the results of a chain do not overlap in memory, neither with each other nor
        with the inputs of the chain.
        """
        buffers = self.program.buffers
        written = {buffers[number][0] for number in made}
        read = {buffers[k][0] for k in (head.source, head.other, head.third) if k >= 0} - written
        slots = [self.program.storages[storage][0] for storage in (*written, *read)]
        assert len(set(slots[: len(written)])) == len(written), (
            "two results of a chain are in the same memory"
        )
        assert not set(slots[: len(written)]) & set(slots[len(written) :]), (
            "a chain writes over what it reads"
        )

    def _read(self, number: int) -> Array:
        storage, _, first, channels = self.program.buffers[number]
        slot = self.program.storages[storage][0]
        assert self.in_slot.get(slot) == storage, (
            "another storage has overwritten the memory that is read"
        )
        return self.storages[storage][:, first : first + channels]

    def _write(self, number: int, image: Array) -> None:
        storage, _, first, channels = self.program.buffers[number]
        slot, _, _, whole, size_of_element = self.program.storages[storage]
        if size_of_element == _NARROW_BYTES:
            image = to_bfloat16(image)
            assert first % 32 == 0
        assert image.shape[1] == channels and first % 16 == 0 and first + channels <= whole
        if self.in_slot.get(slot) != storage:
            self.in_slot[slot] = storage
            batch, _, *size = image.shape
            self.storages[storage] = np.full((batch, whole, *size), np.nan, np.float64)
        target = self.storages[storage]
        assert target.shape[0] == image.shape[0] and target.shape[2:] == image.shape[2:], (
            "views of different sizes"
        )
        target[:, first : first + channels] = image

    def _load(self, step: CStep) -> None:
        tensor = self.tensors[step.source].astype(np.float64)
        is_last = step.own["is_channels_last"]
        is_rows = self.program.storages[self.program.buffers[step.out][0]][2]
        assert is_rows <= is_last and (tensor.ndim == 4 or is_rows)
        self._write(step.out, _image_of_rows(tensor) if is_last else tensor)

    def _store(self, step: CStep) -> None:
        made = self._read(step.source)
        outer = made.shape[:2]
        if step.own["is_channels_last"]:
            made = made.transpose(0, 2, 3, 1)
            outer = made.shape[: self.program.ranks[step.out] - 2]
        self.outputs[step.out] = made.reshape(*outer, *made.shape[2:]).astype(np.float32)

    def _do(self, step: CStep) -> None:
        if step.kind in ("LOAD", "STORE"):
            (self._load if step.kind == "LOAD" else self._store)(step)
            return
        source = self._read(step.source)
        other = None if step.other < 0 else self._read(step.other)
        made = self._made(step, source, other)
        is_residual = step.kind in CONVOLUTIONS and other is not None
        if is_residual and not step.after:
            made = made + other
        assert not (step.after and not is_residual)
        made = ACTIVATIONS[step.activation](made, step.alpha, step.beta)
        if is_residual and step.after:
            made = made + other
        self._write(step.out, made)

    def _made(self, step: CStep, x: Array, other: Array | None) -> Array:
        if step.kind in CONVOLUTIONS:
            return self._convolution(step, x)
        operands = [x] if other is None else [x, other]
        return _computed()[step.kind](self, step, *operands)

    def _convolution(self, step: CStep, x: Array) -> Array:
        if step.third >= 0:
            assert step.kind in ("CONV", *NARROW) and max(step.kernel) == step.group == 1
            factor = self._read(step.third)
            assert factor.shape == (*x.shape[:2], 1, 1)
            if step.kind in NARROW:  # the products of weights and factors are rounded
                self._check_convolution(step, x)
                made = [self._convolved(step, x[k : k + 1], factor[k]) for k in range(len(x))]
                return np.concatenate(made)
            x = x * factor
        self._check_convolution(step, x)
        if joined := step.own.get("joined", 0):  # the second image begins a block
            x = np.concatenate([x[:, :joined], x[:, -(-joined // 32) * 32 :]], axis=1)
        return self._convolved(step, x)

    def _check_convolution(self, step: CStep, x: Array) -> None:
        (storage, planar, first, channels) = self.program.buffers[step.source]
        is_narrow = self.program.storages[storage][4] == _NARROW_BYTES
        assert is_narrow == (step.kind in READ_NARROW)
        out = self.program.buffers[step.out]
        assert self.program.storages[storage][1] >= _border(step)
        assert bool(planar) == step.kind.endswith("FIRST")
        apart = out[0] != storage or out[2] >= first + channels or first >= out[2] + out[3]
        assert apart, "it writes over what it reads"
        if step.kind == "WINOGRAD":
            stride = {4: 1, 5: 2, 6: 1}[step.own["tile_points"]]
            shape = [*step.kernel, *step.stride, *step.dilation, step.group]
            assert shape == [3, 3, stride, stride, 1, 1, 1]
        _check_group(step, channels // step.group, out[3] // step.group)

    def _convolved(self, step: CStep, x: Array, factor: Array | None = None) -> Array:
        channels = self.program.buffers[step.out][3]
        w = self.tensors[step.weights].astype(np.float64)
        if step.kind in NARROW:
            w = to_bfloat16(w)
            w = w if factor is None else to_bfloat16(w * factor)
            x = to_bfloat16(x)
        bias = (
            np.zeros(channels)
            if step.bias < 0
            else self.tensors[step.bias].astype(np.float64).reshape(-1)
        )
        if step.kind.endswith("TRANSPOSED"):
            return _transposed(step, x, w, channels) + bias[None, :, None, None]
        if not x.size:  # numpy cannot form windows of an empty array
            return np.zeros((x.shape[0], channels, *x.shape[2:]))
        w = w.reshape(-1, channels).T if step.kind.endswith("PRODUCT") else w
        w = w.reshape(channels, x.shape[1] // step.group, *step.kernel)
        windows = _windows(step, _padded(step, x, 0.0))
        batch, _, height, width = windows.shape[:4]
        grouped = windows.reshape(batch, step.group, -1, *windows.shape[2:])
        weights = w.reshape(step.group, channels // step.group, *w.shape[1:])
        made = np.einsum("ngihwkl,goikl->ngohw", grouped, weights).reshape(
            batch, channels, height, width
        )
        return made + bias[None, :, None, None]


def _image_of_rows(tensor: Array) -> Array:
    *outer, rows, channels = tensor.shape
    batch, height = [*outer, 1, 1][:2]
    return tensor.reshape(batch, height, rows, channels).transpose(0, 3, 1, 2)


def _normalized(run: Interpreter, step: CStep, x: Array) -> Array:
    centered = x - x.mean(axis=1, keepdims=True) if step.kind == "LAYER_NORM" else x
    variance = (centered**2).mean(axis=1, keepdims=True)
    numbers = ((step.weights, np.ones(1)), (step.bias, np.zeros(1)))
    scale, bias = (missing if k < 0 else run.tensors[k].reshape(-1, 1, 1) for k, missing in numbers)
    return centered / np.sqrt(variance + step.own["epsilon"]) * scale + bias


def _cleared(run: Interpreter, step: CStep, x: Array) -> Array:
    return np.where(run.tensors[step.tensor].transpose(0, 2, 1)[:, None], 0, x)


def _attention(run: Interpreter, step: CStep, *rows: Array) -> Array:
    """Attention of queries, keys and values [batch, channel, 1, row]."""
    rows = (*rows, run._read(step.third))
    count = step.own["heads"]
    times = rows[0].shape[1] // rows[1].shape[1]
    heads = (count, count // times, count // times)
    q, k, v = (
        x.reshape(x.shape[0], n, x.shape[1] // n, x.shape[3])
        for x, n in zip(rows, heads, strict=True)
    )
    k = k.repeat(times, axis=1)
    v = v.repeat(times, axis=1)
    scores = np.einsum("bhdq,bhdk->bhqk", q, k) * step.own["scale"]
    if step.tensor >= 0:
        scores = scores + run.tensors[step.tensor]
    weights = np.exp(scores - scores.max(axis=3, keepdims=True, initial=-np.inf))
    # without keys, the sums over keys are 0
    made = np.einsum("bhqk,bhdk->bhdq", weights / weights.sum(axis=3, keepdims=True), v)
    return made.reshape(q.shape[0], rows[2].shape[1] * times, 1, q.shape[3])


def _resized(run: Interpreter, step: CStep, x: Array) -> Array:
    rows, columns = step.own["factors"]
    return x.repeat(rows, axis=2).repeat(columns, axis=3)


def _picked(run: Interpreter, step: CStep, x: Array) -> Array:
    kept, skipped, groups = (step.own[name] for name in ("kept", "skipped", "groups"))
    turns = np.arange(run.program.buffers[step.out][3] - kept) + skipped
    before = run._read(step.out)[:, :kept] if kept else x[:, :0]
    assert not (before.size and step.activation)
    picked = turns % groups * (x.shape[1] // groups) + turns // groups
    return np.concatenate([before, x[:, picked]], axis=1)


def _flattened(run: Interpreter, step: CStep, x: Array) -> Array:
    """[batch, channel, 1, 1] from or to [1, channel, 1, row]."""
    assert x.shape[2] == 1 and 1 in (x.shape[0], x.shape[3])
    is_rows = run.program.storages[run.program.buffers[step.out][0]][2]
    assert not is_rows or x.shape[3] == 1
    return x.transpose(3, 1, 2, 0)


def _of_two(run: Interpreter, step: CStep, x: Array, other: Array) -> Array:
    assert other.shape == ((*x.shape[:2], 1, 1) if step.kind == "SCALE" else x.shape)
    return x + other if step.kind == "ADD" else x * other


def _rotary(run: Interpreter, step: CStep, x: Array, other: Array) -> Array:
    return _turned(step, x, other, run._read(step.third))


# The functions of steps other than convolutions. They get the image, and the second operand if
# there is one. The test of a new kind may add a function.
COMPUTED: dict[str, Callable[..., Array]] = {
    "MAX_POOL": lambda run, step, x: _pooled(step, x),
    "AVERAGE_POOL": lambda run, step, x: _pooled(step, x),
    "GLOBAL_AVERAGE": lambda run, step, x: x.mean(axis=(2, 3), keepdims=True),
    "LAYER_NORM": _normalized,
    "RMS_NORM": _normalized,
    "CLEAR": _cleared,
    "ROTARY": _rotary,
    "ATTENTION": _attention,
    "RESIZE": _resized,
    "PICK": _picked,
    "FLATTEN": _flattened,
    "ACT": lambda run, step, x: x.copy(),
    "COPY": lambda run, step, x: x.copy(),
    "NARROW_MAX_POOL": lambda run, step, x: _pooled(step, x),
    "NARROW_GLOBAL_AVERAGE": lambda run, step, x: x.mean(axis=(2, 3), keepdims=True),
    "NARROW": lambda run, step, x: x.copy(),
    "WIDEN": lambda run, step, x: x.copy(),
    "ADD": _of_two,
    "MUL": _of_two,
    "SCALE": _of_two,
}


@cache
def _computed() -> Mapping[str, Callable[..., Array]]:
    """COMPUTED, and the tables of this name in the tests that are called after the file of a
    kind.
    """
    tests = (f"test_{name}" for name in kind_files())
    there = [
        import_module(test) for test in tests if Path(__file__).with_name(f"{test}.py").exists()
    ]
    return ChainMap(COMPUTED, *(getattr(module, "COMPUTED", {}) for module in there))


def _turned(step: CStep, x: Array, *tables: Array) -> Array:
    """Rotate both halves of each head [batch, channel, 1, row] by the angle of the row."""
    batch, channels, _, rows = x.shape
    cosines, sines = (table[0, :, 0, :rows] for table in tables)
    first, second = np.split(
        x.reshape(batch, step.own["heads"], channels // step.own["heads"], rows), 2, axis=2
    )
    halves = [first * cosines - second * sines, second * cosines + first * sines]
    return np.concatenate(halves, axis=2).reshape(x.shape)


def _border(step: CStep) -> int:
    """The number of rows and columns around its image that the step reads."""
    if step.kind != "TRANSPOSED":
        return max(step.pads)
    both = zip([*step.kernel] * 2, [*step.stride] * 2, step.pads, strict=True)
    return max(0, *((kernel - 1 - pad) // stride for kernel, stride, pad in both))


def _transposed(step: CStep, x: Array, w: Array, channels: int) -> Array:
    """A transposed convolution: each pixel times the kernel, added at the pixels that it affects."""
    (rows, columns) = step.kernel
    (down, across) = step.stride
    (top, left, bottom, right) = step.pads
    batch, _, height, width = x.shape
    w = w.reshape(step.group, x.shape[1] // step.group, channels // step.group, rows, columns)
    grouped = x.reshape(batch, step.group, -1, height, width)
    high = (height - 1) * down + rows + max(0, -bottom)
    wide = (width - 1) * across + columns + max(0, -right)
    made = np.zeros((batch, channels, high, wide))
    for i in range(rows):
        for j in range(columns):
            part = np.einsum("ngihw,gio->ngohw", grouped, w[..., i, j]).reshape(
                batch, channels, height, width
            )
            made[:, :, i : i + height * down : down, j : j + width * across : across] += part
    return made[:, :, top : high - max(0, bottom), left : wide - max(0, right)]


def _padded(step: CStep, x: Array, value: float) -> Array:
    top, left, bottom, right = step.pads
    return np.pad(x, ((0, 0), (0, 0), (top, bottom), (left, right)), constant_values=value)


def _windows(step: CStep, padded: Array) -> Array:
    reach = [d * (k - 1) + 1 for d, k in zip(step.dilation, step.kernel, strict=True)]
    every = np.lib.stride_tricks.sliding_window_view(padded, reach, axis=(2, 3))
    rows, columns = step.stride
    return every[:, :, ::rows, ::columns, :: step.dilation[0], :: step.dilation[1]]


def _pooled(step: CStep, x: Array) -> Array:
    assert max(step.pads) < max(step.kernel)
    if step.kind.endswith("MAX_POOL"):
        return _windows(step, _padded(step, x, -np.inf)).max(axis=(4, 5))
    sums = _windows(step, _padded(step, x, 0.0)).sum(axis=(4, 5))
    counted = np.ones_like(x)
    return sums / _windows(step, _padded(step, counted, float(step.own["counts_border"]))).sum(
        axis=(4, 5)
    )


def _check_group(step: CStep, taken: int, made: int) -> None:
    """Check that this kind of convolution supports groups of this size."""
    if step.kind.endswith("DEPTHWISE"):
        assert taken == made == 1
    elif step.kind == "GROUPED":
        assert step.group > 1 and (taken % 16 or made % 16)
    elif step.group > 1:
        block = 32 if step.kind in NARROW else 16
        assert step.kind in ("CONV", "TRANSPOSED", *NARROW) and taken % block == made % block == 0
