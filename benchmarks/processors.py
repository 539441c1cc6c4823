"""Run the tests on several processors: this one, simulated older ones, and arm64.

    make processors                                      all of them, one after the other
    python benchmarks/processors.py Nehalem arm64        only these
    python benchmarks/processors.py Haswell --tests tests/verify
    python benchmarks/processors.py --emulate Haswell    much slower; missing instructions end the
                                                         process

`native` is this machine's own processor. For an older one, older_processor.py makes numpy,
OpenBLAS, onnxruntime and glibc choose their code as they would there. If code uses an instruction
without a query, and the older processor lacks it, the instruction runs anyway. `--emulate` finds
such instructions: it runs Python, and the Python processes that it starts, in qemu-x86_64 (Debian's
package qemu-user), which takes hours. In both cases the tests of kernels run once more with the C
code compiled for that processor (-march). `arm64` compiles the kernels with aarch64-linux-gnu-gcc
(Debian's gcc-aarch64-linux-gnu and libc6-dev-arm64-cross), runs them without onnxruntime in
qemu-aarch64, and compares the results with onnxruntime on this machine. The output has one line for
each processor. Exit code 1 if anything fails, or if onnxruntime does not compute as it should on a
simulated processor; 2 if something is not installed.
"""

from __future__ import annotations

import argparse
import os
import re
import shlex
import shutil
import subprocess
import sys
import sysconfig
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import numpy as np

sys.path.insert(0, str(Path(__file__).parent))
sys.path.insert(0, str(Path(__file__).parent.parent / "tests" / "graph_kernel"))
sys.path.insert(0, str(Path(__file__).parent.parent / "tests" / "graph_kernel" / "lower"))
import area_fuzz
import blocked_fuzz
import older_processor
import standalone
import test_operators
from area_models import Maker
from areas import area_of, plain_model, session
from older_processor import LEVELS, MODELS
from standalone_programs import ARM64 as ARM64_PROCESSOR

from fusionc.graph_kernel.area import Area
from fusionc.graph_kernel.c.compile import FLAGS
from fusionc.graph_kernel.c.source import reason_against

ROOT = Path(__file__).parents[1]
NATIVE = "native"
ARM64 = "arm64"
KERNELS = ["tests/graph_kernel/lower", "tests/graph_kernel/c", "tests/graph_kernel/library"]
# random areas, for arm64
AREAS = 200
NETWORKS = 120
Feeds = Mapping[str, np.ndarray]


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    levels = list(LEVELS)[: list(LEVELS).index(older_processor.level()) + 1]
    here = [NATIVE, *(name for name, model in MODELS.items() if model.level in levels), ARM64]
    parser.add_argument("processors", nargs="*", default=here, metavar="PROCESSOR")
    parser.add_argument("--tests", nargs="+", default=["tests"], metavar="PATH")
    parser.add_argument("--emulate", action="store_true", help="older processors by qemu")
    parser.add_argument("--folder", type=Path, default=ROOT / "build" / "processors")
    args = parser.parse_args()
    if problem := _problem(args.processors, here, args.emulate):
        print(problem, file=sys.stderr)
        return 2
    os.chdir(ROOT)
    lines = []
    for name in args.processors:
        print(f"== {name}", flush=True)
        folder = args.folder.resolve() / name
        lines.append(
            on_arm64() if name == ARM64 else on_x86(name, args.tests, folder, args.emulate)
        )
    print("\n".join(line for line, _ in lines))
    return int(not all(is_right for _, is_right in lines))


def _problem(names: Sequence[str], here: Sequence[str], emulates: bool) -> str | None:
    unknown = [name for name in names if name not in here]
    if unknown:
        return f"not to be had on this machine: {', '.join(unknown)}; there are {', '.join(here)}"
    needed = {"gcc": "gcc"}
    if set(names) - {NATIVE, ARM64}:
        needed |= {"qemu-x86_64": "qemu-user"} if emulates else {"objdump": "binutils"}
    if ARM64 in names:
        needed |= {
            "qemu-aarch64": "qemu-user",
            "aarch64-linux-gnu-gcc": "gcc-aarch64-linux-gnu libc6-dev-arm64-cross",
        }
    missing = {
        program: package for program, package in needed.items() if shutil.which(program) is None
    }
    if not missing:
        return None
    packages = " ".join(dict.fromkeys(missing.values()))
    return (
        f"not installed: {', '.join(missing)}; on Debian and Ubuntu: apt-get install "
        f"--no-install-recommends {packages}"
    )


# -- x86-64


def on_x86(name: str, tests: Sequence[str], folder: Path, emulates: bool) -> tuple[str, bool]:
    """A line about a processor, and whether all tests passed and onnxruntime computed as it does on
    that processor.
    """
    begin = time.monotonic()
    python = sys.executable
    march = "native"
    wanted = older_processor.level()
    # All processors share one cache, because a compiler's output for a text is the same on each of
    # them.
    environment = {
        **os.environ,
        "XDG_CACHE_HOME": str(folder.parent / "cache"),
        "PYTHONDONTWRITEBYTECODE": "1",
    }
    if name != NATIVE:
        shutil.rmtree(folder, ignore_errors=True)
        march = MODELS[name].march
        wanted = MODELS[name].level
        if emulates:
            python = str(_emulated(name, folder))
        else:
            environment |= older_processor.environment(name, folder)
    seen = subprocess.run(
        [python, older_processor.__file__],
        capture_output=True,
        text=True,
        check=True,
        env=environment,
    )
    level, results = seen.stdout.split()
    is_native = results == older_processor.results()
    how = "the same as" if is_native else "other bits than"
    what = f"{level}, onnxruntime computes {how} on native"
    if level != wanted or (is_native and level != older_processor.level()):
        return f"{name}: no test was run, for libraries see another processor: {what}", False
    plain, is_right = _pytest(python, tests, environment)
    tuned = f"gcc -march={march}"
    built, is_built_right = _pytest(python, KERNELS, {**environment, "CC": tuned})
    seconds = time.monotonic() - begin
    return (
        f"{name} ({what}): {plain}; kernels with {tuned}: {built}; {seconds:,.0f} s",
        is_right and is_built_right,
    )


def _pytest(python: str, tests: Sequence[str], environment: Mapping[str, str]) -> tuple[str, bool]:
    """pytest's counts, and whether all tests passed."""
    command = [
        python,
        "-m",
        "pytest",
        "-n",
        "2",
        "-m",
        "not timing",
        "-p",
        "no:cacheprovider",
        "-vv",
        *tests,
    ]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True, env=environment) as run:
        assert run.stdout is not None
        last = ""
        passed = 0
        for line in run.stdout:
            last = line.strip("= \n") or last
            passed += " PASSED " in line
            if " PASSED " in line and passed % 1000 == 0:
                print(f"{passed:,} passed", flush=True)
            elif line.strip() and " PASSED " not in line and not line.startswith("tests/"):
                print(line, end="", flush=True)
    return re.sub(r" in .*", "", last), run.returncode == 0


def _emulated(name: str, folder: Path) -> Path:
    """A Python that runs in the emulator, with the packages of this environment. Python processes
    that it starts run there, too.
    """
    shutil.rmtree(folder, ignore_errors=True)
    (folder / "bin").mkdir(parents=True)
    python = folder / "bin" / "python"
    shutil.copy(Path(sys.prefix, "pyvenv.cfg"), folder)
    library = Path(
        sysconfig.get_path("stdlib", vars={"installed_base": "", "base": ""})
    ).relative_to("/")
    (folder / library).parent.mkdir(parents=True)
    (folder / library).symlink_to(Path(sys.prefix) / library)
    real = Path(sys.executable).resolve()
    model = ",".join([name, *(f"-{feature}" for feature in _not_emulated(name, real))])
    command = f"qemu-x86_64 -cpu {model} -0 {shlex.quote(str(python))} {shlex.quote(str(real))}"
    python.write_text(f'#!/bin/sh\nexec {command} "$@"\n')
    python.chmod(0o755)
    return python


def _not_emulated(name: str, program: Path) -> list[str]:
    """The features of a processor that the emulator lacks and warns about whenever it starts."""
    run = subprocess.run(
        ["qemu-x86_64", "-cpu", name, program, "-V"], capture_output=True, text=True, check=True
    )
    return sorted(set(re.findall(r"\.([a-z0-9-]+) \[bit", run.stderr)))


# -- arm64


@dataclass(frozen=True)
class Case:
    """An area, inputs for it, and a function that compares the outputs of its kernel with
    onnxruntime's: it returns a description of the difference, or "".
    """

    name: str
    area: Area
    feeds: list[Feeds]
    difference: Callable[[Feeds, list[np.ndarray]], str]


def on_arm64() -> tuple[str, bool]:
    """A line about kernels that are compiled for arm64 and compared with onnxruntime on this
    machine, and whether all are equal.
    """
    begin = time.monotonic()
    runs = 0
    found = 0
    with tempfile.TemporaryDirectory() as folder:
        for kind, cases in (("operators", _operators()), ("random areas", _random_areas())):
            good = [case for case in cases if reason_against(case.area) is None]
            text = Path(folder, "kernels.c")
            program = Path(folder, "kernels")
            text.write_text(standalone.program([case.area for case in good]))
            flags = [*FLAGS, "-static"]
            subprocess.run(
                ["aarch64-linux-gnu-gcc", *flags, "-o", program, text, "-lm"], check=True
            )
            print(f"{len(good)} {kind}", flush=True)
            for number, case in enumerate(good):
                for feeds in case.feeds:
                    what = _on_arm64(program, number, case, feeds)
                    runs += 1
                    if what:
                        found += 1
                        print(f"{case.name}: {what}", flush=True)
    counts = Counter[str]()
    for text in blocked_fuzz.run_batch(5, range(NETWORKS), counts, processor=ARM64_PROCESSOR):
        found += 1
        print(text, flush=True)
    print(f"{counts['areas']} blocked areas", flush=True)
    runs += counts["areas"]
    return (
        f"arm64: {found} of {runs} runs of kernels differ; {time.monotonic() - begin:,.0f} s",
        not found,
    )


def _on_arm64(program: Path, number: int, case: Case, feeds: Feeds) -> str:
    calls = standalone.call(number, case.area, feeds)
    run = subprocess.run(
        ["qemu-aarch64", str(program)], input=calls, capture_output=True, check=False
    )
    if run.returncode:
        return f"exit code {run.returncode}"
    return case.difference(feeds, standalone.outputs(case.area, run.stdout))


def _operators() -> Iterator[Case]:
    for number, (name, (text, share)) in enumerate(test_operators.CASES.items()):
        area = area_of(text, name=f"op_{number}")
        sizes = [size for size in test_operators.SIZES if 0 not in size]
        feeds = [
            test_operators.feeds_of(area, seed, *size, name) for seed, size in enumerate(sizes)
        ]
        yield Case(
            name,
            area,
            feeds,
            partial(test_operators.difference, area, session(plain_model(area)), share),
        )


def _random_areas() -> Iterator[Case]:
    for number in range(AREAS):
        maker = Maker(f"5/{number}")
        area = maker.area(f"area_{number}")
        try:
            session(plain_model(area))
        except Exception as error:
            # onnxruntime lacks kernels of some operators for some types
            if "NOT_IMPLEMENTED" not in str(error):
                raise
            continue
        feeds = [maker.feeds(turn) for turn in range(2)]
        yield Case(
            f"area 5/{number}", area, feeds, partial(area_fuzz.finding, area, counts=Counter())
        )


if __name__ == "__main__":
    sys.exit(main())
