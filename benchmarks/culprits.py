"""Plant faults in passes, and check in real models that bisect, rollback and --check_rewrites find
them.

    python benchmarks/culprits.py ../shared               all faults (half an hour)
    python benchmarks/culprits.py ../shared --only t5     faults whose model or pass has a name
                                                          that contains a word

Each fault is planted in one pass, at one place of one model; then two or three faults are planted
at once. `bisect` must name exactly these rewrites, in at most ceil(log2(rewrites)) + 2 runs for
each, and must make a small model that shows the fault. Rollback must deliver a verified model
without them. --check_rewrites must stop at the rewrite. Exit code 1 if anything is wrong.
"""

from __future__ import annotations

import argparse
import math
import os
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from pathlib import Path

from sweep import hydrated

sys.path.insert(0, str(Path(__file__).parents[1] / "tests"))
from planted_faults import (
    Fault,
    Plant,
    attribute,
    behind,
    constant,
    in_reverse,
    inputs,
    planted,
    swapped,
    without,
)

import fusionc
from fusionc.api import bisect
from fusionc.bisect.bisect_story import Bisection
from fusionc.errors import VerificationError

SMALL = 16 << 10  # bytes of a model that shows a fault

FAULTS = (
    Fault("ConvBatchnormFusionPass", "a lost bias", without("Conv", 2), "mobilenet_v2-ts-raw"),
    Fault("ConvBatchnormFusionPass", "a scale squared", constant(lambda w: w * 2), "bnzoo-dyn-raw"),
    Fault(
        "TbeConvElemwiseFusionPass",
        "a lower limit",
        attribute("FusedConv", "activation_params", lambda _: [0.0, 0.1]),
        "mobilenet_v2-ts-s",
    ),
    Fault(
        "TbeConvElemwiseFusionPass",
        "another activation",
        attribute("FusedConv", "activation", lambda _: "Tanh", only=b"Relu"),
        "groupsplit-ts-s",
    ),
    Fault(
        "Conv2DTransposeBatchnormFusionPass",
        "a lost bias",
        without("ConvTranspose", 2),
        "bnzoo-ts-raw",
    ),
    Fault("BatchnormConvFusionPass", "a lost bias", without("Conv", 2), "bnzoo-ts-s"),
    Fault(
        "ASplitConv2dConcatPass",
        "groups in another order",
        constant(lambda w: w[::-1]),
        "groupsplit-dyn-s",
    ),
    Fault("ZSplitVDFusionPassV2", "pieces in reverse", in_reverse, "groupsplit-ts-s"),
    Fault("MatMulBiasAddFusionPass", "a lost bias", without("Gemm", 2), "bnzoo-ts-raw"),
    Fault("GemmScaleFusionPass", "a scale inverted", constant(lambda w: w * 4), "dlrm-ts-b"),
    Fault(
        "ATbeMatMulElemwiseFusionPass",
        "another activation",
        attribute("FusedGemm", "activation", lambda _: "Sigmoid"),
        "dlrm-ts-b",
    ),
    Fault("TransposeScaleMatMulFusionPass", "a sign too many", behind("Neg"), "dlrm-dyn-b"),
    Fault(
        "QuickGeluFusionPass",
        "alpha of another formula",
        attribute("QuickGelu", "alpha", lambda _: 1.702),
        "bnzoo-dyn-raw",
    ),
    Fault("BiasGeluFusionPass", "a sign too many", behind("Neg"), "mlp_bn-ts-b"),
    Fault("PoolingFusionPass", "another function behind it", behind("Exp"), "mobilenet_v2-dyn-s"),
    Fault(
        "SqueezeExciteScalePass",
        "another function behind it",
        behind("Abs"),
        "efficientnet_b0-dyn-s",
    ),
    Fault("ConstantFoldingPass", "a wrong fold", constant(lambda c: c + 1), "lstm-dyn-s"),
    Fault("SameInputMatMulPass", "pieces in reverse", in_reverse, "t5_enc-ts-d"),
    Fault(
        "MultiHeadAttentionFusionPass",
        "a lost bias of the scores",
        without("MultiHeadAttention", 5),
        "t5_enc-ts-d",
    ),
    Fault(
        "MultiHeadAttentionFusionPass",
        "keys and values swapped",
        swapped("MultiHeadAttention", 1, 2),
        "t5_enc-ts-d",
    ),
    Fault("GemmScaleFusionPass", "a scale inverted", constant(lambda w: w * 4), "t5_enc-ts-d"),
    Fault(
        "LayerNormFusionPass",
        "scale and bias swapped",
        swapped("LayerNormalization", 1, 2),
        "stress6k_dyn",
    ),
    Fault(
        "ResidualSumPass",
        "one operand twice",
        inputs("Sum", lambda values: [values[0], values[0]]),
        "stress6k_dyn",
    ),
)
AT_ONCE = (  # the numbers of the faults
    ("groupsplit-ts-s", (3, 7)),
    ("bnzoo-ts-raw", (4, 8)),
    ("bnzoo-ts-raw", (4, 8, 12)),
    ("t5_enc-ts-d", (17, 20)),
)


def cases(only: str) -> Iterator[tuple[str, Sequence[Fault]]]:
    for fault in FAULTS:
        if only in f"{fault.model} {fault}":
            yield fault.model, [fault]
    for model, numbers in AT_ONCE:
        if only in model:
            yield model, [FAULTS[number] for number in numbers]


def complaints(model: Path, faults: Sequence[Fault], report: list[str]) -> Iterator[str]:
    with planted(*faults) as plants:
        start = time.perf_counter()
        story = bisect(model)
        seconds = time.perf_counter() - start
        if not all(plant.labels for plant in plants):
            yield "a fault found no place"
        yield from _of_names(story, plants)
        yield from _of_cost(story, seconds, report)
        yield from _of_rollback(model, len(plants))
        yield from _of_check_rewrites(model, plants)


def _of_names(story: Bisection, plants: Sequence[Plant]) -> Iterator[str]:
    """The complaint if bisect does not name exactly the planted faults."""
    named = [rewrite.commit for one in story.found for rewrite in one.culprit.rewrites]
    if sorted((c.pass_name, c.pattern, c.nodes) for c in named) != sorted(map(_name, plants)):
        names = ", ".join(f"{c.pass_name} at {c.nodes}" for c in named)
        yield f"bisect names {names or story.summary}"


def _of_cost(story: Bisection, seconds: float, report: list[str]) -> Iterator[str]:
    """The complaint if there are too many runs, or if a model that shows a fault is too large."""
    counts = [one.culprit.count for one in story.found]
    bound = sum(math.ceil(math.log2(count)) + 2 for count in counts)
    if story.runs > bound:
        yield f"{story.runs} runs, more than {bound}"
    if not all(one.minimal is not None and one.minimal.shown for one in story.found):
        yield "a small model does not show it"
    sizes = [one.files[0].stat().st_size if one.files else 0 for one in story.found]
    if max(sizes, default=0) > SMALL:
        yield f"small models of {sizes} bytes"
    report.append(
        f"{counts} rewrites, {story.runs} runs of at most {bound}, {seconds:.1f} s, {sizes} bytes"
    )


def _of_rollback(model: Path, count: int) -> Iterator[str]:
    """The complaint if rollback does not deliver a verified model without the faults."""
    result = fusionc.convert(model, output="rolled_back.onnx", on_mismatch="rollback")
    if not (result.verification or "").startswith("equal"):
        yield f"rollback: {result.verification}"
    if sum("as it is: the result" in notice for notice in result.notices) != count:
        yield f"rollback: {result.notices}"


def _of_check_rewrites(model: Path, plants: Sequence[Plant]) -> Iterator[str]:
    """The complaint if the conversion does not stop at a planted fault."""
    try:
        fusionc.convert(model, output="checked.onnx", check_rewrites=True, verify=False)
        yield "--check_rewrites does not stop"
    except VerificationError as error:
        places = [
            f"{p.fault.pass_name}, pattern {p.pattern}, at {', '.join(p.labels)} " for p in plants
        ]
        if not error.where.startswith(tuple(places)):
            yield f"--check_rewrites stops at {error.where}"


def _name(plant: Plant) -> tuple[str, str, tuple[str, ...]]:
    return plant.fault.pass_name, plant.pattern, plant.labels


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("shared", type=Path)
    parser.add_argument("--only", default="")
    arguments = parser.parse_args()
    shared = arguments.shared.resolve()
    bad = 0
    with tempfile.TemporaryDirectory() as folder:
        os.chdir(folder)
        os.environ["FUSIONC_PROCESS_LOG_PATH"] = folder
        for name, faults in cases(arguments.only):
            report: list[str] = []
            model = hydrated(shared / "models" / f"{name}.onnx", Path(folder))
            wrong = list(complaints(model, faults, report))
            bad += bool(wrong)
            print(f"{name}: {'; '.join(map(str, faults))}: {''.join(report)}", flush=True)
            if wrong:
                print(f"    WRONG: {'; '.join(wrong)}", flush=True)
    print(f"{bad} wrong")
    return int(bad > 0)


if __name__ == "__main__":
    sys.exit(main())
