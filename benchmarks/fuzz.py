"""Join the models on which passes fire into larger models, optimize them with random switches, and
compare the results.

    python benchmarks/fuzz.py --runs 1000 --seed 0     a thousand models
    python benchmarks/fuzz.py --seed 0 --only 123      only run 123 of these

A run is right if the optimizer does not raise an error, and its result is valid, has the interface
of the original, is not larger, and gives the same numbers in onnxruntime with its own optimizers
off, for several sizes and seeds. (A shared constant counts for each use, because folding into it
may copy it.) A second optimization must change nothing. Every tenth run uses files and
fusionc.convert with its verification.

With bitwise passes alone, the numbers must be equal, including NaN and Inf. Otherwise they may
differ by a share of the largest element. If they differ by more, the inputs, weights and inner
values of the original are moved by a few units in the last place: a difference that this causes as
well does not count. In such runs, comparisons, roundings and other operators that can turn a last
bit into another result read only graph inputs, and never computed floats.

Findings are written to build/fuzz/, each with the rewrite at fault and a smaller model. Exit code 1
if there are any.
"""

from __future__ import annotations

import argparse
import contextlib
import ctypes
import multiprocessing
import os
import random
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import onnx.inliner
import onnxruntime
from onnx import ModelProto, numpy_helper

sys.path.insert(0, str(Path(__file__).parent))
from fuzz_models import FLOATS, Glued, Snippet, copy_of, generated, make_feeds, session, snippets
from harness import _with_edges as with_edges
from harness import all_nodes, interface, operators

import fusionc
from fusionc.bisect.first_bad import first_bad
from fusionc.model.write_back import write_back
from fusionc.passes import PASSES
from fusionc.requested.target_opset import newest_opset, raise_opset
from fusionc.rewrite import Pass
from fusionc.rewrite.log import PatternCount, RewriteLog
from fusionc.rewrite.pipeline import run
from fusionc.shapes.inference import typed_model

Feeds = dict[str, Any]
_SHARE = {"bitwise": 3e-5, "rounding": 3e-5, "approximate": 1e-3}  # of the largest element
_OF_HALVES = 2e-2
# Gelu by tanh is off by 5e-4 at any scale
_LEAST_SCALE = {"bitwise": 0.1, "rounding": 0.1, "approximate": 1.0}
_SHAKEN_PLACES = 4  # units in the last place by which values are moved, at most
_DRAWS = 8  # ways in which they are moved
_RANDOM_UNTIL = 21  # the last opset in which onnxruntime has a kernel for RandomUniformLike
_NOISE = 30  # differences up to this many times the effect of moving last places count as noise
# whether these operators return NaN in onnxruntime depends on the positions of the elements
_IGNORE_NAN = {"ReduceMax", "ReduceMin"}
_M_PERTURB = -6  # of glibc's mallopt
_FILLINGS = (0x11, 0xEE)  # bytes with which uninitialized memory is filled
_LIVES = 3  # processes in which an original must run without crashing
_GROWTH = 4096  # bytes; the provenance of a new node needs this much
# bytes by which these passes may enlarge a model in one rewrite to save time
_LARGER = dict.fromkeys(("FewChannelsConvPass", "PadChannelsPass"), 1 << 20)


class Noise:
    """The changes of an output when last places change."""

    def __init__(self) -> None:
        self.largest = 0.0  # change of a finite element
        self.is_open: Any = False  # whether no digit of an element stays the same

    def add(self, want: np.ndarray, other: np.ndarray) -> None:
        change = _change(want, other)
        self.largest = max(self.largest, float(change.max(initial=0)))
        is_lost = (change > 0) & (2 * change >= np.abs(want.astype(np.float64)))
        self.is_open = self.is_open | is_lost | (_kinds(want) != _kinds(other))

    def explains(self, want: np.ndarray, got: np.ndarray) -> bool:
        """Whether a result is off by no more than some times this noise, and NaN or infinite only
        in elements without a digit.
        """
        is_other = (_kinds(want) != _kinds(got)) & ~np.asarray(self.is_open)
        return not is_other.any() and bool((_change(want, got) <= _NOISE * self.largest).all())


def _kinds(array: np.ndarray) -> np.ndarray:
    """0 for each finite element, other numbers for NaN and the infinities."""
    return np.asarray(np.isnan(array) + 2 * np.isposinf(array) + 3 * np.isneginf(array))


def _change(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    """The difference of each pair of finite elements, 0 for others."""
    is_finite = np.isfinite(a) & np.isfinite(b)
    both = (np.where(is_finite, one, 0).astype(np.float64) for one in (a, b))
    return np.asarray(np.abs(np.subtract(*both)))


def passes_of(mode: str, rng: random.Random) -> list[Pass]:
    """The passes of a mode, or a random subset of them."""
    passes = {
        "bitwise": [p for p in PASSES if p.numerics == "bitwise"],
        "default": [p for p in PASSES if p.default != "off"],
        "exact": [p for p in PASSES if p.numerics != "approximate"],
        "all": list(PASSES),
    }[mode]
    if mode != "default" and rng.random() < 0.6:
        share = rng.choice([0.15, 0.5, 0.8])
        return [p for p in passes if rng.random() < share] or passes
    return passes


@dataclass
class Plan:
    """One run. Everything follows from the seed and the number."""

    seed: int
    number: int
    stock: dict[str, list[Snippet]]
    counts: Counter[str] = field(default_factory=Counter)
    excused: bool = False

    def __post_init__(self) -> None:
        rng = random.Random(f"{self.seed}/{self.number}")
        mode = rng.choices(["bitwise", "default", "exact", "all"], [40, 25, 25, 10])[0]
        self.passes: list[Pass] = passes_of(mode, rng)
        self.numerics = {"bitwise": "bitwise", "all": "approximate"}.get(mode, "rounding")
        self.target = rng.choice(["onnxruntime-cpu", "onnx"])
        self.glued: Glued = generated(rng, self.stock, self.numerics == "bitwise")
        self.model = self.glued.finish() if self.glued.parts else self.glued.model
        self.target_opset = None
        if rng.random() < 0.15 and self.glued.opset < newest_opset():
            self.target_opset = rng.randint(self.glued.opset + 1, newest_opset())
        # verification chooses sizes itself
        self.through_files = rng.random() < 0.1 and not self.glued.sizes

    @cached_property
    def raised(self) -> ModelProto:
        """The model that the passes see, raised to the target opset."""
        return (
            copy_of(self.model)
            if self.target_opset is None
            else raise_opset(copy_of(self.model), self.target_opset)
        )

    @cached_property
    def has_halves(self) -> bool:
        """Whether the model has float16 values. onnxruntime computes these in float32, and may
        round between any two nodes.
        """
        return "float16" in onnx.printer.to_text(self.raised) or any(
            attribute.name == "to" and attribute.i == onnx.TensorProto.FLOAT16
            for node in all_nodes(self.raised)
            for attribute in node.attribute
        )

    @property
    def is_exact(self) -> bool:
        return self.numerics == "bitwise" and not self.has_halves

    def feeds(self, model: ModelProto) -> Iterator[Feeds]:
        sizes = self.glued.sizes
        for seed, size in enumerate((2, 3, 1)):
            feeds = make_feeds(model, {**sizes, "": size}, seed)
            yield feeds
            if self.is_exact and self.glued.edge_values and not _IGNORE_NAN & set(operators(model)):
                yield {name: with_edges(value) for name, value in feeds.items()}
        if self.glued.zero_sizes:
            yield make_feeds(model, {**sizes, "": 0}, 0)

    def all_feeds(self, model: ModelProto) -> Iterator[Feeds]:
        """All inputs on which a comparison runs the model."""
        yield from self.feeds(model)

    def optimized(
        self, model: ModelProto, limit: int | None = None
    ) -> tuple[ModelProto, list[PatternCount], RewriteLog]:
        log = RewriteLog(limit)
        graph = typed_model(copy_of(model), "", self.target)
        counts = run(graph, self.passes, log)
        return write_back(graph), counts, log

    def examine(self) -> str | None:
        """The fault of the run, or None."""
        try:
            try:
                session(self.raised)
                onnx.checker.check_model(self.raised, full_check=True)
            except Exception:
                # onnxruntime lacks some operators in some opsets, and onnx does not know the types
                # of all functions
                return None
            if self.through_files:
                return self.examine_files()
            return self.examine_model(self.raised)
        except Exception as error:
            return f"{type(error).__name__}: {error}"

    def examine_model(self, model: ModelProto) -> str | None:
        try:
            result, counts, _ = self.optimized(model)
        except Exception as error:
            return f"{type(error).__name__}: {error}"
        for count in counts:
            self.counts[count.pass_name] += count.effected
        return self.complaint(model, result) or self.again(result)

    def complaint(self, model: ModelProto, result: ModelProto) -> str | None:
        try:
            onnx.checker.check_model(result, full_check=True)
        except Exception as error:
            return f"invalid: {error}"
        if interface(result) != interface(model):
            return "the interface differs"
        growth = (
            _GROWTH
            + 150 * len(result.graph.node)
            + sum(_LARGER.get(p.name, 0) for p in self.passes)
        )
        if result.ByteSize() > model.ByteSize() + shared_bytes(model) + growth:
            return f"grows from {model.ByteSize()} to {result.ByteSize()} bytes"
        return self.difference(model, result)

    def again(self, result: ModelProto) -> str | None:
        _, counts, _ = self.optimized(result)
        busy = {count.pass_name for count in counts if count.effected}
        return f"a second run takes effect: {', '.join(sorted(busy))}" if busy else None

    def examine_files(self) -> str | None:
        """The fault of a run through fusionc.convert, or None."""
        on = {p.name for p in self.passes}
        with tempfile.TemporaryDirectory() as name:
            folder = Path(name)
            os.environ["FUSIONC_PROCESS_LOG_PATH"] = str(folder / "log")
            onnx.save(self.model, folder / "model.onnx")
            try:
                report = fusionc.convert(
                    folder / "model.onnx",
                    output=folder / "out.onnx",
                    optimization_switch=";".join(
                        f"{p.name}:{'on' if p.name in on else 'off'}" for p in PASSES
                    ),
                    verify=self.numerics != "approximate",
                    target=self.target,
                    target_opset=self.target_opset,
                )
            except fusionc.VerificationError as error:
                return self.cannot_load(error)
            except fusionc.FusioncError as error:
                return f"{type(error).__name__}: {error}"
            for count in report.patterns:
                self.counts[count.pass_name] += count.effected
            result = onnx.load(folder / "out.onnx")
        return self.complaint(self.raised, result)

    # -- numbers

    def difference(self, model: ModelProto, result: ModelProto) -> str | None:
        try:
            runner = session(result)
        except Exception as error:
            return self.cannot_load(error)
        return self.sessions_differ(model, runner)

    def sessions_differ(
        self, model: ModelProto, runner: onnxruntime.InferenceSession
    ) -> str | None:
        """How the outputs of the result, loaded by `runner`, differ from those of the model; None
        if they do not.
        """
        original = session(model)
        known = {value.name for value in original.get_inputs()}
        for feeds in self.feeds(model):
            feeds = {name: value for name, value in feeds.items() if name in known}
            try:
                expected = original.run(None, feeds)
            except Exception:  # the model does not run at this size
                continue
            try:
                actual = runner.run(None, feeds)
            except Exception as error:
                if self.may_refuse(feeds, error):
                    continue
                return f"does not run: {error}"
            if problem := self.outputs_differ(model, feeds, expected, actual):
                return problem
        return None

    def may_refuse(self, feeds: Feeds, error: Exception) -> bool:
        """Whether the result may fail on these inputs although the original runs."""
        return False

    def outputs_differ(
        self, model: ModelProto, feeds: Feeds, expected: Sequence[Any], actual: Sequence[Any]
    ) -> str | None:
        """Which outputs are wrong, and why; None if none are. Differences that the original itself
        amplifies are excused.
        """
        names = [value.name for value in model.graph.output]
        differences = {
            name: difference
            for name, want, got in zip(names, expected, actual, strict=True)
            if (difference := self.unequal(want, got))
        }
        if not differences or self.is_unstable(model, feeds, expected):
            return None
        errors = {name: error for name, (_, error) in differences.items()}
        if not self.is_exact and self.is_noise(model, feeds, expected, actual, errors):
            self.excused = True
            return None
        what = "; ".join(f"{name}: {reason}" for name, (reason, _) in differences.items())
        return f"numbers: {what}"

    def is_noise(
        self,
        model: ModelProto,
        feeds: Feeds,
        expected: Sequence[Any],
        actual: Sequence[Any],
        errors: Mapping[str, float | None],
    ) -> bool:
        """Whether the outputs of the original change as much if a few last places change."""
        if None in errors.values():
            return False
        try:
            noise = self.noise(model, feeds, expected)
        except Exception:  # at sizes that contradict the declaration no difference counts
            return False
        values = zip(noise, expected, actual, strict=True)
        return all(noise[name].explains(a, b) for name, a, b in values if name in errors)

    def cannot_load(self, error: Exception) -> str | None:
        """The fault if onnxruntime cannot load the result. The only excuse is a result for any
        runtime whose operators onnxruntime lacks.
        """
        if self.target == "onnx" and "NOT_IMPLEMENTED" in str(error):
            self.counts["not run"] += 1
            return None
        return f"{type(error).__name__}: {error}"

    def is_unstable(self, model: ModelProto, feeds: Feeds, expected: Sequence[Any]) -> bool:
        """Whether onnxruntime gives other outputs, or fails, when it runs the original again or
        with other contents of uninitialized memory. For example, it does not initialize the result
        of a Tile by 0, or of a Concat of empty and other tensors.
        """
        try:
            runs = [
                session(model).run(None, feeds),
                *(run_in_filled_memory(model, feeds, byte) for byte in _FILLINGS),
            ]
        except Exception:
            return True
        return any(
            self.unequal(a, b) for again in runs for a, b in zip(expected, again, strict=True)
        )

    def unequal(self, want: Any, got: Any) -> tuple[str, float | None] | None:
        """None if two outputs are equal. Otherwise a description of the difference, and its amount:
        infinity if a NaN or Inf moved, or None if noise is not an excuse.
        """
        if not isinstance(want, np.ndarray):
            return None if want == got else ("no tensors", None)
        if want.dtype != got.dtype or want.shape != got.shape:
            return f"{got.dtype}{list(got.shape)} for {want.dtype}{list(want.shape)}", None
        if want.dtype.kind != "f":
            return None if np.array_equal(want, got) else ("other numbers", None)
        if np.array_equal(want, got, equal_nan=True):
            return None
        if self.is_exact:
            return f"not bitwise: off by {_off(want, got):.3g}", _off(want, got)
        scale = max(
            float(np.abs(want[np.isfinite(want)].astype(np.float64)).max(initial=0)),
            _LEAST_SCALE[self.numerics],
        )
        share = _OF_HALVES if self.has_halves else _SHARE[self.numerics]
        # these passes document their results for a division by zero
        if self.numerics == "approximate":
            is_finite = np.isfinite(want)
            want = np.where(is_finite, want, 0)
            got = np.where(is_finite, got, 0)
        off = _off(want, got)
        return (f"off by {off:.3g}, largest {scale:.3g}", off) if off > share * scale else None

    def noise(self, model: ModelProto, feeds: Feeds, expected: Sequence[Any]) -> dict[str, Noise]:
        """How much the outputs change if inputs, weights and inner values change by a few units in
        the last place.
        """
        noise = {value.name: Noise() for value in model.graph.output}
        for seed in range(_DRAWS):
            rng = np.random.default_rng(seed)
            others = session(shaken(model, rng)).run(
                None, {name: _shaken(value, rng) for name, value in feeds.items()}
            )
            for name, a, b in zip(noise, expected, others, strict=True):
                if isinstance(a, np.ndarray) and a.dtype.kind == "f" and a.shape == b.shape:
                    noise[name].add(a, b)
        return noise

    # -- what to report

    def guilty(self) -> str:
        """The rewrite at fault, if the numbers differ or the result is invalid."""
        try:
            model = self.raised
            count = self.optimized(model)[2].count
            if not count or self.complaint(model, self.optimized(model, 0)[0]):
                return "no rewrite"
            number = first_bad(
                count, lambda limit: self.complaint(model, self.optimized(model, limit)[0]) is None
            )[0]
            last = self.optimized(model, number)[2].last
        except Exception as error:
            return f"{type(error).__name__}"
        assert last is not None
        place = f"{last.pass_name}, pattern {last.pattern}, at {', '.join(last.nodes)}"
        return f"{place} (rewrite {number} of {count})"

    def smaller(self) -> ModelProto:
        """A model with fewer outputs and nodes that also shows a fault."""
        return reduced(self.raised, lambda model: self.is_wrong(model))

    def is_wrong(self, model: ModelProto) -> bool:
        try:
            onnx.checker.check_model(model, full_check=True)
            session(model).run(None, make_feeds(model, {**self.glued.sizes, "": 2}, 0))
        except Exception:
            return False
        try:
            return self.examine_model(model) is not None
        except Exception:
            return True


def run_in_filled_memory(model: ModelProto, feeds: Feeds, byte: int) -> list[Any]:
    """The outputs of a model if all its memory is filled with `byte` first. glibc has a setting for
    that.
    """
    perturb = getattr(ctypes.CDLL(None), "mallopt", lambda *_: 0)
    try:
        perturb(_M_PERTURB, byte)
        outputs: list[Any] = session(model, has_arena=False).run(None, feeds)
        return outputs
    finally:
        perturb(_M_PERTURB, 0)


def shared_bytes(model: ModelProto) -> int:
    """How much larger the model would be if each node had its own constants. Passes may copy shared
    constants.
    """
    users = Counter(name for node in all_nodes(model) for name in node.input)
    return sum(
        t.ByteSize() * (users[t.name] - 1) for t in model.graph.initializer if users[t.name] > 1
    )


def _off(want: np.ndarray, got: np.ndarray) -> float:
    a = want.astype(np.float64)
    b = got.astype(np.float64)
    finite = np.isfinite(a)
    if not np.array_equal(finite, np.isfinite(b)) or not np.array_equal(
        a[~finite], b[~finite], equal_nan=True
    ):
        return float("inf")
    return float(np.abs(a[finite] - b[finite]).max(initial=0.0))


def shaken(model: ModelProto, rng: np.random.Generator) -> ModelProto:
    """The model with slightly changed weights. Each element of the floats that a node computes is
    multiplied by its own number near 1: with one number for all, a sum of terms that cancel would
    keep its sign.
    """
    copy = onnx.shape_inference.infer_shapes(onnx.inliner.inline_local_functions(model))
    for tensor in copy.graph.initializer:
        if tensor.data_type in FLOATS:
            array = numpy_helper.to_array(tensor)
            kept = array * 16 == np.round(array * 16)  # exponents, factors and counts are exact
            tensor.CopyFrom(
                numpy_helper.from_array(np.where(kept, array, _shaken(array, rng)), tensor.name)
            )
    opset = next(entry.version for entry in copy.opset_import if not entry.domain)
    _shake(copy.graph, opset, rng)
    return copy


def _shake(graph: onnx.GraphProto, opset: int, rng: np.random.Generator) -> None:
    types = {v.name: v.type.tensor_type.elem_type for v in [*graph.value_info, *graph.output]}
    nodes: list[onnx.NodeProto] = []
    for node in graph.node:
        nodes.append(node)
        for attribute in node.attribute:
            for body in [*([attribute.g] if attribute.HasField("g") else []), *attribute.graphs]:
                _shake(body, opset, rng)
        if node.op_type == "Constant":
            continue
        for index, name in enumerate(node.output):
            if types.get(name) in FLOATS:
                node.output[index] = f"{name} unshaken"
                nodes += _multiplied_by_factors(name, types[name], opset, rng)
    kept = [onnx.NodeProto.FromString(node.SerializeToString()) for node in nodes]
    del graph.node[:]
    graph.node.extend(kept)


def _multiplied_by_factors(
    name: str, elem_type: int, opset: int, rng: np.random.Generator
) -> list[onnx.NodeProto]:
    """The nodes that multiply each element of "NAME unshaken" by 1 plus a few last places."""
    make = onnx.helper.make_node
    dtype = np.dtype(onnx.helper.tensor_dtype_to_np_dtype(elem_type))
    step = np.asarray(_SHAKEN_PLACES * np.finfo(dtype).eps, dtype)
    return [
        *(_random_shares if opset <= _RANDOM_UNTIL else _wavy_shares)(name, rng),
        make("Cast", [f"{name} drawn"], [f"{name} share"], to=elem_type),
        _constant(f"{name} step", step),
        make("Mul", [f"{name} share", f"{name} step"], [f"{name} offset"]),
        _constant(f"{name} one", np.ones((), dtype)),
        make("Add", [f"{name} offset", f"{name} one"], [f"{name} factor"]),
        make("Mul", [f"{name} unshaken", f"{name} factor"], [name]),
    ]


def _random_shares(name: str, rng: np.random.Generator) -> list[onnx.NodeProto]:
    """The node that draws a number between -1 and 1 for each element of "NAME unshaken"."""
    bounds = {"low": -1.0, "high": 1.0, "dtype": onnx.TensorProto.FLOAT}
    seed = float(rng.integers(1 << 20))
    inputs = [f"{name} unshaken"]
    return [
        onnx.helper.make_node("RandomUniformLike", inputs, [f"{name} drawn"], seed=seed, **bounds)
    ]


def _wavy_shares(name: str, rng: np.random.Generator) -> list[onnx.NodeProto]:
    """The same from the sines of the numbers of the elements."""
    make = onnx.helper.make_node
    return [
        make("Size", [f"{name} unshaken"], [f"{name} size"]),
        make("Shape", [f"{name} unshaken"], [f"{name} shape"]),
        _constant(f"{name} first", np.array(0)),
        _constant(f"{name} next", np.array(1)),
        make("Range", [f"{name} first", f"{name} size", f"{name} next"], [f"{name} numbers"]),
        make("Cast", [f"{name} numbers"], [f"{name} angles"], to=onnx.TensorProto.FLOAT),
        _constant(f"{name} frequency", np.asarray(rng.uniform(1, 3), np.float32)),
        make("Mul", [f"{name} angles", f"{name} frequency"], [f"{name} wave"]),
        _constant(f"{name} phase", np.asarray(rng.uniform(0, 6), np.float32)),
        make("Add", [f"{name} wave", f"{name} phase"], [f"{name} moved wave"]),
        make("Sin", [f"{name} moved wave"], [f"{name} sines"]),
        make("Reshape", [f"{name} sines", f"{name} shape"], [f"{name} drawn"], allowzero=1),
    ]


def _constant(name: str, array: np.ndarray) -> onnx.NodeProto:
    return onnx.helper.make_node("Constant", [], [name], value=numpy_helper.from_array(array))


def _shaken(array: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    if array.dtype.kind != "f":
        return array
    step = _SHAKEN_PLACES * np.finfo(array.dtype).eps
    return np.asarray(array * (1 + step * rng.uniform(-1, 1, array.shape))).astype(array.dtype)


def reduced(
    model: ModelProto, is_wrong: Callable[[ModelProto], bool], tries: int = 400
) -> ModelProto:
    """Remove outputs, and replace computed values by inputs, as long as the model still shows a
    fault.
    """
    if not is_wrong(model):
        return model
    busy = True
    while busy and tries > 0:
        busy = False
        for candidate in _candidates(model):
            tries -= 1
            if is_wrong(candidate):
                model = candidate
                busy = True
                break
            if tries <= 0:
                break
    return model


def _candidates(model: ModelProto) -> Iterator[ModelProto]:
    """Smaller models: with a single output, with the results of a node as inputs, or with an
    operand as the output.
    """
    outputs = model.graph.output
    if len(outputs) > 1:
        yield from (_with_output(model, output) for output in outputs)
    inferred = onnx.shape_inference.infer_shapes(model, data_prop=True)
    types = {value.name: value for value in [*inferred.graph.value_info, *inferred.graph.output]}
    yield from _without_a_node(model, types)
    if len(outputs) == 1:
        yield from (_with_output(model, types[name]) for name in _last_operands(model, types))


def _without_a_node(
    model: ModelProto, types: Mapping[str, onnx.ValueInfoProto]
) -> Iterator[ModelProto]:
    """Models in which the results of a node are inputs; the last node comes first."""
    ends = {value.name for value in model.graph.output}
    for index in reversed(range(len(model.graph.node))):
        results = {name: None for name in model.graph.node[index].output if name}
        if not ends & results.keys() and results.keys() <= types.keys():
            copy = copy_of(model)
            del copy.graph.node[index]
            copy.graph.input.extend(types[name] for name in results)
            yield _needed(copy)


def _last_operands(model: ModelProto, types: Mapping[str, onnx.ValueInfoProto]) -> list[str]:
    """The operands, with known types, of the node that computes the output."""
    ends = {value.name for value in model.graph.output}
    last = [node for node in model.graph.node if ends & set(node.output)]
    return [name for node in last for name in node.input if name in types.keys() - ends]


def _with_output(model: ModelProto, output: onnx.ValueInfoProto) -> ModelProto:
    """The part of a model that computes one output."""
    copy = copy_of(model)
    del copy.graph.output[:]
    copy.graph.output.append(output)
    return _needed(copy)


def _needed(model: ModelProto) -> ModelProto:
    """The model without the nodes, constants and inputs that no output needs."""
    wanted = {value.name for value in model.graph.output}
    kept = []
    for node in reversed(model.graph.node):
        if wanted & set(node.output):
            kept.append(node)
            wanted |= set(_reads(node))
    for values in (model.graph.initializer, model.graph.input):
        left = [value for value in values if value.name in wanted]
        del values[:]
        values.extend(left)
    del model.graph.node[:], model.graph.value_info[:]
    model.graph.node.extend(reversed(kept))
    called = {node.op_type for node in model.graph.node} | set(operators(model))
    functions = [function for function in model.functions if function.name in called]
    del model.functions[:]
    model.functions.extend(functions)
    return model


def _reads(node: onnx.NodeProto) -> Iterator[str]:
    yield from node.input
    for attribute in node.attribute:
        for inner in attribute.g.node:
            yield from _reads(inner)
        yield from (value.name for value in attribute.g.output)


def write_down(plan: Plan, complaint: str, guilty: str, path: Path) -> None:
    """Write a finding: first the original model, and then a smaller one, in a separate process that
    a broken model may crash.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    onnx.save(plan.model, path.with_suffix(".onnx"))
    path.write_text(report_of(plan, complaint, guilty, plan.raised))
    if not plan.through_files:
        child = multiprocessing.get_context("fork").Process(
            target=lambda: path.write_text(report_of(plan, complaint, guilty, plan.smaller()))
        )
        child.start()
        child.join(300)
        child.kill()


def report_of(plan: Plan, complaint: str, guilty: str, model: ModelProto) -> str:
    kept = list(model.graph.initializer)
    head = [
        f"# python benchmarks/fuzz.py --seed {plan.seed} --only {plan.number}",
        f"# {complaint}",
        f"# at fault: {guilty}",
        f"# passes: {' '.join(p.name for p in plan.passes)}",
        (
            f"# target {plan.target}, target_opset {plan.target_opset}, {plan.numerics}, sizes "
            f"{plan.glued.sizes}"
        ),
        *(f"#   {part}" for part in plan.glued.parts),
        *(f"#   {t.name} = {numpy_helper.to_array(t).ravel()[:8].tolist()}" for t in kept),
    ]
    return "\n".join(head) + "\n" + onnx.printer.to_text(model) + "\n"


def outcome(plan: Plan, folder: Path) -> Counter[str]:
    """Run one plan, write down the fault if there is one, and count the outcomes."""
    if not plan.glued.parts:
        return Counter()
    counts = Counter(models=1, nodes=len(plan.model.graph.node))
    try:
        _ = plan.raised
    except fusionc.FusioncError:  # onnx cannot raise the opset
        counts["not raised"] += 1
        plan.target_opset = None
    complaint = plan.examine()
    if complaint:
        path = folder / f"{plan.seed}-{plan.number}.txt"
        guilty = plan.guilty()
        print(
            f"run {plan.number}: {complaint[:300]}\n    at fault: {guilty}\n    see {path}",
            flush=True,
        )
        write_down(plan, complaint, guilty, path)
    return counts + plan.counts + Counter({"findings": bool(complaint), "excused": plan.excused})


def run_original(plan: Plan) -> None:
    """Run the original model in onnxruntime, in memory with several contents."""
    with contextlib.suppress(Exception):  # only a crash of the process matters
        runner = session(plan.raised)
        known = {value.name for value in runner.get_inputs()}
        for feeds in plan.all_feeds(plan.raised):
            named = {name: value for name, value in feeds.items() if name in known}
            with contextlib.suppress(Exception):
                runner.run(None, named)
            for byte in _FILLINGS:
                with contextlib.suppress(Exception):
                    run_in_filled_memory(plan.raised, named, byte)


def kills_by_itself(plan: Plan) -> bool:
    """Whether the original crashes the process. This may happen only in some runs, depending on the
    contents of uninitialized memory.
    """
    context = multiprocessing.get_context("fork")
    for _ in range(_LIVES):
        child = context.Process(target=run_original, args=(plan,))
        child.start()
        child.join()
        if child.exitcode:
            return True
    return False


def outcomes(
    plan: Callable[[int], Plan], numbers: Sequence[int], folder: Path
) -> Iterator[Counter[str]]:
    """The runs, in separate processes, because onnxruntime may crash.

    A process first sends the model that it has built. The model depends on values of runs, which
    may depend on uninitialized memory: the same number can give another model in another process.
    """
    context = multiprocessing.get_context("fork")
    left = list(numbers)

    def work(end: Any, part: Sequence[int]) -> None:
        for number in part:
            drawn = plan(number)
            end.send((drawn.glued, drawn.model))
            end.send(outcome(drawn, folder))

    while left:
        ours, theirs = context.Pipe()
        child = context.Process(target=work, args=(theirs, left[:50]))
        child.start()
        theirs.close()
        part = left[:50]
        left = left[50:]
        glued = None
        while part:
            try:
                glued = None
                glued = ours.recv()
                yield ours.recv()
                part.pop(0)
            except EOFError:
                yield death_of(plan, part[0], glued)
                left[:0] = part[1:]
                break
        child.join()


def death_of(
    plan: Callable[[int], Plan], number: int, glued: tuple[Glued, ModelProto] | None
) -> Counter[str]:
    """The outcome of a run whose process crashed, after it built this model or before."""
    is_ours = False
    if glued is not None:
        original = plan(number)
        original.glued, original.model = glued
        is_ours = not kills_by_itself(original)
    if is_ours:
        print(
            f"run {number}: the process dies\n    at fault: look with --only {number} --here",
            flush=True,
        )
    return Counter({"models": 1, "findings": is_ours, "died": not is_ours})


def numbers_of(options: argparse.Namespace) -> Sequence[int]:
    """The numbers of the requested runs."""
    return (
        range(options.first, options.first + options.runs)
        if options.only is None
        else [options.only]
    )


def total_of(results: Iterable[Counter[str]], started: float) -> Counter[str]:
    """The sum of all runs. Prints the progress."""
    total = Counter[str]()
    for done, counts in enumerate(results, 1):
        total += counts
        if done % 100 == 0:
            print(
                (
                    f"{done} runs, {total['findings']} findings, "
                    f"{time.perf_counter() - started:.0f} "
                    "s"
                ),
                flush=True,
            )
    return total


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--runs", type=int, default=100)
    parser.add_argument("--first", type=int, default=0, help="the number of the first run")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--only", type=int, help="one run alone")
    parser.add_argument("--here", action="store_true", help="in this process, for a debugger")
    parser.add_argument("--folder", type=Path, default=Path("build/fuzz"))
    options = parser.parse_args()
    stock = snippets()
    started = time.perf_counter()
    numbers = numbers_of(options)
    if options.here:
        results = (outcome(Plan(options.seed, number, stock), options.folder) for number in numbers)
    else:
        results = outcomes(
            lambda number: Plan(options.seed, number, stock), numbers, options.folder
        )
    total = total_of(results, started)
    rewrites = sum(total[p.name] for p in PASSES)
    print(
        f"\n{total['models']} models of {total['nodes'] / max(total['models'], 1):.0f} nodes, "
        f"{rewrites} rewrites:"
    )
    for pass_ in PASSES:
        print(f"{total[pass_.name]:8}  {pass_.name}")
    print(
        f"{total['findings']} findings, {total['excused']} models with differences that the "
        "original amplifies, too, "
        f"{total['not raised']} of which onnx cannot raise the opset, {total['not run']} results "
        "for any runtime that "
        f"onnxruntime has no kernel for, {total['died']} of which onnxruntime dies by itself, "
        f"{time.perf_counter() - started:.0f} s"
    )
    return int(total["findings"] > 0)


if __name__ == "__main__":
    sys.exit(main())
