"""Find pairs of passes that want the same nodes, and measure whether the other order is better.

    python benchmarks/pass_pairs.py                      the table, on stdout
    python benchmarks/pass_pairs.py --only GeluFusionPass

The models are those on which the tests say that a pass fires, with large sizes instead of small
ones. A pair overlaps on a model if both passes, by themselves, would rewrite a common node. Usually
the pass that is earlier in the registry takes it. The other order is to run the later pass alone,
and then all passes as usual. If the results differ in their operators, both run in onnxruntime, in
turn, on one thread. Exit code 1 if a pair is faster by more than 10 % in the other order.
"""

from __future__ import annotations

import argparse
import re
import statistics
import sys
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import onnx
import onnxruntime
from onnx import ModelProto

sys.path.insert(0, str(Path(__file__).parent.parent / "tests"))
from harness import Fires, load_tests_of, make_feeds, operators, optimize, parse

from fusionc.passes import PASSES
from fusionc.rewrite import Pass
from fusionc.shapes.inference import typed_model
from fusionc.why.pass_places import places_of

DEFAULT = [p for p in PASSES if p.default != "off"]
FACTORS = (64, 16, 4)  # of the sizes in a model
MOST_BYTES = 1 << 26
MOST_OPEN = 256
ENOUGH = 1e-3  # seconds
ROUNDS = 15
DIFFERENCE = 1.1

Nodes = frozenset[tuple[int, str]]


@dataclass(frozen=True)
class Pair:
    """Two orders of two passes on one model."""

    first: str
    second: str
    case: str
    usual: Counter[str]  # the operators of the result
    other: Counter[str]
    ratio: float | None  # the time of the other order, as a share of the usual one
    seconds: float  # of a run in the usual order

    @property
    def is_better(self) -> bool:
        """Whether the other order is faster by more than 10 %."""
        return self.ratio is not None and self.ratio * DIFFERENCE < 1


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--only", help="only models of this pass")
    only = parser.parse_args().only
    print("| first | second | model | usual result | other order | µs | other / usual |")
    print("|---|---|---|---|---|---|---|")
    better = 0
    for pass_ in PASSES:
        if only in (None, pass_.name):
            for pair in pairs_on_models_of(pass_):
                print(row(pair), flush=True)
                better += pair.is_better
    return int(better > 0)


def row(pair: Pair) -> str:
    """A line of the table."""
    common = pair.usual & pair.other
    cells = [pair.first, pair.second, pair.case]
    for own in (pair.usual - common, pair.other - common):
        cells.append(", ".join(f"{count} {op}" for op, count in own.items()) or "–")
    measured = pair.ratio is not None
    cells += [f"{pair.seconds * 1e6:.0f}", f"{pair.ratio:.2f}"] if measured else ["", "not run"]
    return f"| {' | '.join(cells)}{' (better)' * pair.is_better} |"


def pairs_on_models_of(pass_: Pass) -> Iterator[Pair]:
    """The pairs whose results differ, each on the first model of the pass that has it."""
    seen = set[tuple[Pass, Pass]]()
    for case in getattr(load_tests_of(pass_), "FIRES", []):
        if case.target == "onnxruntime-cpu" and isinstance(case.graph, str):
            small = parse(case.graph, case.opset, case.ir_version)
            wanted = set(overlapping(small)) - seen
            seen |= wanted
            for first, second, model in largest_models(wanted, case, small):
                pair = measured(first, second, f"{pass_.name}: {case.name}", model)
                if pair is not None:
                    yield pair


def largest_models(
    wanted: set[tuple[Pass, Pass]], case: Fires, small: ModelProto
) -> Iterator[tuple[Pass, Pass, ModelProto]]:
    """Each pair with the largest model on which it overlaps."""
    for model in (*enlarged(case), small) if wanted else ():
        fitting = sorted(wanted & set(overlapping(model)), key=lambda pair: pair[1].name)
        wanted = wanted.difference(fitting)
        for first, second in fitting:
            yield first, second, model


def overlapping(model: ModelProto) -> list[tuple[Pass, Pass]]:
    """Two passes, in the order of the registry, that would each rewrite a common node."""
    taken: list[tuple[Pass, Nodes]] = []
    graphs = typed_model(model, "", "onnxruntime-cpu")
    for pass_ in DEFAULT:
        for place in places_of(graphs, pass_, only_matches=True):
            if not place.reason:
                nodes = frozenset((place.graph_id, node) for node in place.nodes)
                taken.append((pass_, nodes))
    pairs = [
        (first, second)
        for at, (first, nodes) in enumerate(taken)
        for second, others in taken[at + 1 :]
        if first is not second and nodes & others
    ]
    return list(dict.fromkeys(pairs))


def enlarged(case: Fires) -> Iterator[ModelProto]:
    """The model with larger sizes, the largest first, if it is valid with them."""
    for factor in FACTORS:
        text = re.sub(r"(?<=\w)\[([^\]]*)\]", partial(larger, factor), str(case.graph))
        with suppress(Exception):  # sizes in constants do not fit the larger ones
            model = parse(text, case.opset, case.ir_version)
            onnx.checker.check_model(model, full_check=True)
            session(model)
            if model.ByteSize() < MOST_BYTES:
                yield model


def larger(factor: int, shape: re.Match[str]) -> str:
    """The shape, with dimensions from 3 on multiplied."""
    dims = [dim.strip() for dim in shape[1].split(",")]
    is_number = [dim.isdigit() and int(dim) > 2 for dim in dims]
    large = [
        str(int(dim) * factor) if number else dim
        for dim, number in zip(dims, is_number, strict=True)
    ]
    return f"[{','.join(large)}]"


def session(model: ModelProto) -> onnxruntime.InferenceSession:
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = 1
    options.log_severity_level = 4
    return onnxruntime.InferenceSession(
        model.SerializeToString(), options, providers=["CPUExecutionProvider"]
    )


def measured(first: Pass, second: Pass, name: str, model: ModelProto) -> Pair | None:
    """Both orders, or None if they have the same operators."""
    usual, _ = optimize(model, DEFAULT)
    begun, _ = optimize(model, [second])
    other, _ = optimize(begun, DEFAULT)
    counts = [operators(usual), operators(other)]
    if counts[0] == counts[1]:
        return None
    try:
        times = in_turn([usual, other])
        if is_better(times):  # it may be chance
            times += in_turn([usual, other])
    except Exception:  # a model for a test need not run with large sizes
        return Pair(first.name, second.name, name, *counts, None, 0.0)
    ratio = statistics.median(b / a for a, b in times)
    return Pair(first.name, second.name, name, *counts, ratio, min(a for a, _ in times))


def is_better(times: Sequence[tuple[float, float]]) -> bool:
    """Whether the second of two models is faster by more than 10 %."""
    return DIFFERENCE * statistics.median(b / a for a, b in times) < 1


def in_turn(models: Sequence[ModelProto]) -> list[tuple[float, float]]:
    """The seconds of a run of each of two models, in several rounds."""
    sessions = [session(model) for model in models]
    feeds = large_feeds(sessions[0], models[0])
    return [(timed(sessions[0], feeds), timed(sessions[1], feeds)) for _ in range(ROUNDS)]


def large_feeds(usual: Any, model: ModelProto) -> dict[str, Any]:
    """Inputs with which a run takes a while: open dimensions are doubled."""
    size = 2
    while True:
        feeds = make_feeds(model, {"": size}, 0)
        if timed(usual, feeds) > ENOUGH or size >= MOST_OPEN:
            return feeds
        size *= 2


def timed(one: Any, feeds: dict[str, Any]) -> float:
    """The processor time of a run, in seconds: of several runs, if they are short."""
    start = time.thread_time()
    runs = 0
    while time.thread_time() - start < ENOUGH:
        one.run(None, feeds)
        runs += 1
    return (time.thread_time() - start) / runs


if __name__ == "__main__":
    sys.exit(main())
