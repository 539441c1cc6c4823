"""Convert random models as a user does, and compare the results with code that is independent of
the verification.

    python benchmarks/random_conversions.py --way default --runs 5000
    python benchmarks/random_conversions.py --way kernels --runs 2000
    python benchmarks/random_conversions.py --way no_verify --runs 2000
    python benchmarks/random_conversions.py --way default --only 123        only run 123 of these

The models are those of fuzz.py. fusionc.convert converts each one with its default passes:
verified, with kernels, or unverified. Then both models run in onnxruntime with its optimizers off.
The sizes are 2, 3, 1 and 0 (unless a pass states that its result does not accept an empty batch),
and sizes that contradict the declarations of the model: two dimensions with one symbol get
different sizes. Inputs on which the original fails are not used. Passes assume that dimensions with
one symbol have one size, as ONNX defines it; without that, transformers keep 60 % more nodes.
Therefore failures and differences at contradicting sizes are only counted.

A conversion that ends in an error is a finding: either its verification rejected a correct rewrite,
or a pass was wrong. Findings are written to build/random_conversions/. Exit code 1 if there are
any.
"""

from __future__ import annotations

import argparse
import multiprocessing
import os
import random
import sys
import tempfile
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import onnxruntime
from onnx import ModelProto

sys.path.insert(0, str(Path(__file__).parent))
from fuzz import Feeds, Plan, kills_by_itself, numbers_of, outcomes, total_of
from fuzz_models import copy_of, generated, make_feeds, snippets

import fusionc
from fusionc.passes import PASSES

WAYS: dict[str, dict[str, Any]] = {
    "default": {},
    "kernels": {"enable_graph_kernel": True},
    "no_verify": {"verify": False},
}
_CONTRADICTIONS = 4  # samples with sizes that contradict the declarations
_OUTCOMES = ("as the original", "refused", "otherwise")  # at such sizes
_SIZES = (0, 1, 2, 3)
_NOTHING = "size != 0 && (input_shape_size % size) == 0 was false"  # onnxruntime on Reshape


@dataclass
class Conversion(Plan):
    """One model, converted in one way. Everything follows from the seed and the number."""

    way: str = "default"
    contradicts: bool = False

    def __post_init__(self) -> None:
        rng = random.Random(f"{self.seed}/{self.number}/conversion")
        self.passes = [p for p in PASSES if p.default != "off"]
        self.numerics = "rounding"
        self.target = "onnxruntime-cpu"
        self.target_opset = None
        self.glued = generated(rng, self.stock, sharp_anywhere=False)
        self.model = self.glued.finish() if self.glued.parts else self.glued.model
        self.through_files = True

    def feeds(self, model: ModelProto) -> Iterator[Feeds]:
        if not self.contradicts:
            for seed, size in enumerate((2, 3, 1, 0) if self.glued.zero_sizes else (2, 3, 1)):
                yield make_feeds(model, {**self.glued.sizes, "": size}, seed)
            return
        rng = random.Random(f"{self.seed}/{self.number}/sizes")
        for seed in range(_CONTRADICTIONS):
            yield make_feeds(contradicted(model, rng), {"": 2}, seed)

    def all_feeds(self, model: ModelProto) -> Iterator[Feeds]:
        for self.contradicts in (False, True):
            yield from self.feeds(model)

    def examine_files(self) -> str | None:
        with tempfile.TemporaryDirectory() as name:
            folder = Path(name)
            os.environ["FUSIONC_PROCESS_LOG_PATH"] = str(folder / "log")
            onnx.save(self.model, folder / "model.onnx")
            try:
                report = fusionc.convert(
                    folder / "model.onnx", output=folder / "out.onnx", **WAYS[self.way]
                )
            except fusionc.FusioncError as error:
                return f"{type(error).__name__}: {error}"
            for count in report.patterns:
                self.counts[count.pass_name] += count.effected
            runner = session_of(folder / "out.onnx")
            self.counts["with kernels"] += (folder / "out.kernels.so").exists()
            complaint = self.sessions_differ(self.model, runner)
            return self.count_contradictions(runner) or complaint

    def may_refuse(self, feeds: Feeds, error: Exception) -> bool:
        """Whether the error comes from a Reshape of an empty tensor. ShapeReshapePass documents
        that a -1 cannot be computed then, and onnxruntime's own ReshapeFusion does the same.
        """
        is_empty = any(isinstance(value, np.ndarray) and not value.size for value in feeds.values())
        is_reshape = is_empty and _NOTHING in str(error)
        self.counts["empty and refused"] += is_reshape
        return is_reshape

    def unequal(self, want: Any, got: Any) -> tuple[str, float | None] | None:
        """As in Plan, except that two tensors without elements may have different sizes: a Reshape
        copies a size if it reads a 0.
        """
        if (
            isinstance(want, np.ndarray)
            and isinstance(got, np.ndarray)
            and not want.size
            and not got.size
        ):
            self.counts["empty in another way"] += want.shape != got.shape
            return None
        return super().unequal(want, got)

    def count_contradictions(self, runner: onnxruntime.InferenceSession) -> str | None:
        """Count the outcomes of the result at sizes that contradict the declarations, because
        passes assume that equal symbols mean equal sizes. The fault if only the result kills the
        process: it is another one, because onnxruntime kills it with some originals, too.
        """
        child = multiprocessing.get_context("fork").Process(
            target=lambda: os._exit(_OUTCOMES.index(self.contradicting_outcome(runner)))
        )
        child.start()
        child.join()
        if child.exitcode in range(len(_OUTCOMES)):
            self.counts[_OUTCOMES[child.exitcode]] += 1
        elif kills_by_itself(self):
            self.counts["died"] += 1
        else:
            return "the process dies at sizes that contradict the declaration"
        return None

    def contradicting_outcome(self, runner: onnxruntime.InferenceSession) -> str:
        self.contradicts = True
        complaint = self.sessions_differ(self.model, runner)
        if complaint is None:
            return "as the original"
        return "refused" if complaint.startswith("does not run") else "otherwise"


def session_of(path: Path) -> onnxruntime.InferenceSession:
    """A session of the result with the kernels next to it, without onnxruntime's optimizers."""
    options = onnxruntime.SessionOptions()
    options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
    options.log_severity_level = 4
    options.intra_op_num_threads = 1
    kernels = path.with_name("out.kernels.so")
    if kernels.exists():
        options.register_custom_ops_library(str(kernels))
    return onnxruntime.InferenceSession(str(path), options)


def contradicted(model: ModelProto, rng: random.Random) -> ModelProto:
    """The model with a new symbol for each open dimension of each input, even if some had the same
    symbol.
    """
    copy = copy_of(model)
    for value in copy.graph.input:
        for dim in value.type.tensor_type.shape.dim:
            if not dim.HasField("dim_value"):
                dim.dim_value = rng.choice(_SIZES)
    return copy


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--way", choices=sorted(WAYS), default="default")
    parser.add_argument("--runs", type=int, default=100)
    parser.add_argument("--first", type=int, default=0, help="the number of the first run")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--only", type=int, help="one run alone")
    parser.add_argument("--folder", type=Path, default=Path("build/random_conversions"))
    options = parser.parse_args()
    stock = snippets()
    started = time.perf_counter()

    def plan(number: int) -> Plan:
        return Conversion(options.seed, number, stock, way=options.way)

    total = total_of(outcomes(plan, numbers_of(options), options.folder / options.way), started)
    rewrites = sum(total[p.name] for p in PASSES)
    print(
        f"{options.way}: {total['models']} models of "
        f"{total['nodes'] / max(total['models'], 1):.0f} nodes, "
        f"{rewrites} rewrites, {total['with kernels']} models with kernels: {total['findings']} "
        "findings, "
        f"{total['empty in another way']} outputs empty in another way, "
        f"{total['empty and refused']} inputs without elements that Reshape refuses, "
        f"{total['refused']} refused and {total['otherwise']} other answers at sizes that "
        "contradict the declaration, "
        f"{total['excused']} with differences that the original amplifies, too, {total['died']} "
        "with which onnxruntime "
        f"dies by itself, {time.perf_counter() - started:.0f} s"
    )
    return int(total["findings"] > 0)


if __name__ == "__main__":
    sys.exit(main())
