"""Run random networks as plain operators and as programs over images in blocks, and compare the
results.

    python benchmarks/blocked_fuzz.py --count 1000 --seed 1
    python benchmarks/blocked_fuzz.py --seed 1 --only 123       only network 123 of these
    python benchmarks/blocked_fuzz.py --count 200 --sanitize    under AddressSanitizer and
                                                                UndefinedBehaviorSanitizer

Two of three networks are convolutional, and the third has products of rows. Every fourth network
also runs on NaN and infinities. Each area of a network runs with vectors of every width that the
processor has, and in onnxruntime on two threads. The reference is onnxruntime with its optimizers
off. Although the networks are small, some 3×3 convolutions use Winograd's algorithm with tiles of
each size, products use Strassen's algorithm if their channels allow it, and steps by channel are
joined with the convolution before them. If the results differ, the steps of the program are also
computed with numpy, which shows whether the program or its execution is wrong. Exit code 1 if
anything differs.
"""

from __future__ import annotations

import math
import sys
import tempfile
from collections import Counter
from collections.abc import Iterator, Sequence
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent.parent / "tests" / "graph_kernel"))
sys.path.insert(0, str(Path(__file__).parent.parent / "tests" / "graph_kernel" / "blocked"))
from fuzz_options import fuzz_options
from interpreter import Interpreter
from kernels_run import run_kernel
from networks import Array, Found, areas_of, difference, program_of_area, values_of, wanted
from random_networks import RandomNetwork
from random_rows import RandomRows
from standalone_programs import SANITIZERS, Processor, Standalone, native

from fusionc.graph_kernel.blocked import make_program
from fusionc.graph_kernel.blocked.kinds import winograd
from fusionc.graph_kernel.library.build_library import build

_BATCH = 400  # networks in one library


def calls_of(seed: int, number: int) -> list[tuple[Found, list[Array]]]:
    """The areas of a network, and their inputs."""
    made = (RandomRows if number % 3 == 2 else RandomNetwork)(f"{seed}/{number}")
    model = made.network.model()
    found = areas_of(model)
    names = [name for one in found for name in one.images.values()]
    # onnxruntime's results for NaN vary
    is_decided = all(node.op_type != "MaxPool" for node in model.graph.node)
    values = values_of(
        model, made.network.feeds(made.sizes, edges=is_decided and number % 4 == 3), names
    )
    return [(one, one.tensors(values)) for one in found]


def problem_of(found: Found, tensors: Sequence[Array], got: Sequence[Array]) -> str:
    """How the outputs differ from onnxruntime's. "" if they do not."""
    plain = wanted(found.area, tensors)
    problems = [difference(a, b) for a, b in zip(plain, got, strict=True)]
    if not any(problems):
        return ""
    program = program_of_area(found.area)
    steps = [
        difference(a, b) for a, b in zip(plain, Interpreter(program, tensors).run(), strict=True)
    ]
    return (
        f"{'the program' if any(steps) else 'what runs it'}: {problems} {' '.join(program.kinds)}"
    )


def _by_any_tiles(
    height: int, width: int, channels: int, made: int, stride: int
) -> tuple[float, int]:
    """Pretend that Winograd's algorithm with tiles of some size takes no time, or that it is never
    faster.
    """
    choices = [*((0.0, tile.points) for tile in winograd.WINOGRAD_TILES[stride]), (math.inf, 0)]
    return choices[(height + 2 * width + channels + made) % len(choices)]


def run_batch(
    seed: int,
    numbers: Sequence[int],
    counts: Counter[str],
    flags: Sequence[str] = (),
    processor: Processor | None = None,
) -> Iterator[str]:
    """The findings of several networks that share a library. With flags or a processor, they do not
    run in onnxruntime.
    """
    make_program.strassen_from = lambda taken, made: 1
    winograd.winograd_seconds = _by_any_tiles
    calls = [(number, *call) for number in numbers for call in calls_of(seed, number)]
    areas = [found.area for _, found, _ in calls]
    counts["networks"] += len(numbers)
    counts["areas"] += len(areas)
    if not areas:
        return
    library = None
    if not flags and not processor:
        built = build(areas)
        library = built.library
        yield from (f"{name}: {reason}" for name, reason in built.failed.items())
    with tempfile.TemporaryDirectory() as folder:
        alone = Standalone(areas, Path(folder), flags or ["-O1"], processor)
        for number, found, tensors in calls:
            for problem in problems_of(
                found, tensors, alone, library, (processor or native()).widths
            ):
                yield f"network {number}, {problem}"


def problems_of(
    found: Found,
    tensors: Sequence[Array],
    alone: Standalone,
    library: Path | None,
    widths: Sequence[int],
) -> Iterator[str]:
    """The faults of an area, run alone with vectors of each width, and in onnxruntime if there is a
    library.
    """
    for width in widths:
        try:
            problem = problem_of(found, tensors, alone.run(found.area, tensors, width))
        except AssertionError as error:
            problem = str(error)
        if problem:
            yield f"width {width}: {problem}"
    if library is not None:
        problem = problem_of(found, tensors, run_kernel(found, tensors, library))
        if problem:
            yield f"in onnxruntime: {problem}"


def main() -> int:
    options = fuzz_options(__doc__)
    counts: Counter[str] = Counter()
    findings = 0
    for begin in range(0, len(options.numbers), _BATCH):
        numbers = options.numbers[begin : begin + _BATCH]
        for text in run_batch(
            options.seed, numbers, counts, SANITIZERS if options.sanitize else ()
        ):
            print(text, flush=True)
            findings += 1
    print(f"{counts['areas']} areas of {counts['networks']} networks compared, {findings} findings")
    return bool(findings)


if __name__ == "__main__":
    sys.exit(main())
