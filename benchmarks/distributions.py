"""Build the source distribution and the wheel, and use both as a stranger would: in new
environments, in another folder.

    make dist-check                                                 with this Python
    make dist-check PYTHONS="python3.11 python3.13"                 with these
    python benchmarks/distributions.py --tests tests/cli --python python3.11
    python benchmarks/distributions.py --tests none                 without the tests of the source
                                                                    distribution

Each distribution is installed alone for each Python. Then the command converts a sample model with
kernels, writes the included switch files, and loads the users' passes in docs/custom_passes.md and
docs/writing_a_pass.md, which mypy --strict must accept. After that, with the first Python, the
source distribution is unpacked in an empty folder, and `make check` and the tests run there. pip's
usual settings determine the source of packages. Exit code 1 if anything fails.
"""

from __future__ import annotations

import argparse
import os
import re
import shutil
import subprocess
import sys
import tarfile
import tempfile
import time
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path

ROOT = Path(__file__).parents[1]
SNIPPETS = {  # page, beginning of its example, name of the pass, matching model
    "my_passes.py": (
        "docs/custom_passes.md",
        "# my_passes.py\n",
        "ReluScalePass",
        "h = Mul (x, two)  y = Relu (h)",
    ),
    "negation.py": (
        "docs/writing_a_pass.md",
        "from fusionc",
        "DoubleNegationPass",
        "h = Neg (x)  g = Neg (h)  y = Exp (g)",
    ),
}
WRITE_MODEL = """
import sys, onnx.parser
opset = '<ir_version: 8, opset_import: ["" : 18]>'
head = "agraph (float[N,4] x) => (float[N,4] y) <float two = {2}>"
text = f"{opset} {head} {{ {sys.argv[1]} }}"
onnx.save(onnx.parser.parse_model(text), "own.onnx")
"""
USE_KERNELS = """
import fusionc, onnxruntime
options = onnxruntime.SessionOptions()
fusionc.register_kernels(options, "out.onnx")
onnxruntime.InferenceSession("out.onnx", options)
"""


class Failed(Exception):
    """A command did not do what it should. The text has its output."""


def run(*words: str | Path, cwd: Path, expect: str = "") -> str:
    """The output of a command. Raises Failed if it fails, or if it does not print `expect`."""
    outside = {
        key: value for key, value in os.environ.items() if key not in ("PYTHONPATH", "VIRTUAL_ENV")
    }
    done = subprocess.run(
        words,
        cwd=cwd,
        env=outside,
        text=True,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
    )
    if done.returncode or not re.search(expect, done.stdout):
        raise Failed(f"{' '.join(map(str, words))}: exit code {done.returncode}\n{done.stdout}")
    return done.stdout


def environment(python: str, folder: Path, *packages: str | Path) -> Path:
    """Create a virtual environment with these packages, and return its folder of commands."""
    run(python, "-m", "venv", folder, cwd=folder.parent)
    binaries = folder / ("Scripts" if os.name == "nt" else "bin")
    run(binaries / "python", "-m", "pip", "install", "--quiet", *packages, cwd=folder.parent)
    return binaries


def check_installed(python: str, distribution: Path, source: Path, folder: Path) -> str:
    """Install a distribution and use it in an empty folder. Return a sentence about the result."""
    folder.mkdir()
    binaries = environment(python, folder / "venv", distribution, "mypy")
    work = folder / "work"
    work.mkdir()
    fusionc = partial(run, binaries / "fusionc", cwd=work)
    version = fusionc("--version", expect=r"^fusionc \d+\.\d+").strip()
    model = source / "sample_models" / "transformer_block.onnx"
    output = "out.onnx"
    expect = "with generated kernels and without: equal"
    fusionc("convert", "--model", model, "--output", output, "--enable_graph_kernel", expect=expect)
    run(binaries / "python", "-c", USE_KERNELS, cwd=work)
    for preset in sorted((source / "switch_configs").glob("*.json")):
        if fusionc("switch_file", "--preset", preset.stem) != preset.read_text(encoding="utf-8"):
            raise Failed(f"fusionc switch_file --preset {preset.stem} is not {preset}")
    for name, (page, beginning, a_pass, nodes) in SNIPPETS.items():
        code = re.search(
            f"```python\n({beginning}.*?)```",
            (source / page).read_text(encoding="utf-8"),
            re.DOTALL,
        )
        if code is None:
            raise Failed(f"{page} shows no pass")
        (work / name).write_text(code[1], encoding="utf-8")
        run(binaries / "python", "-m", "mypy", "--strict", name, cwd=work)
        run(binaries / "python", "-c", WRITE_MODEL, nodes, cwd=work)
        expect = rf"\[{a_pass}\]: .*effected_times=1\."
        (work / "only.json").write_text(
            f'{{"Switch": {{"GraphFusion": {{"ALL": "off", "{a_pass}": "on"}}}}}}'
        )
        options = ("--custom_passes", name, "--fusion_switch_file", "only.json")
        fusionc(
            "convert", "--model", "own.onnx", "--output", "own_fused.onnx", *options, expect=expect
        )
    kind = "wheel" if distribution.suffix == ".whl" else "source distribution"
    python_version = run(binaries / "python", "--version", cwd=work).strip()
    what = "converts with kernels, mypy --strict takes users' passes"
    return f"{python_version}, {kind}: {version} {what}"


def check_source(python: str, source: Path, tests: Sequence[str]) -> str:
    """Run `make check` and tests in the unpacked source distribution. Return the last line of the
    tests.
    """
    run("make", f"PYTHON={python}", "check", cwd=source)
    words = (".venv/bin/python", "-m", "pytest", "-rs", "-m", "not timing", *tests)
    output = run(*words, cwd=source, expect=r"\d+ passed")
    return "\n".join(
        line for line in output.splitlines() if line.startswith("SKIPPED") or " passed" in line
    )


def told(check: Callable[[], str]) -> bool:
    """Whether a check passes. Prints a line with the result and the time."""
    start = time.monotonic()
    try:
        text = check()
        is_right = True
    except Failed as error:
        text = str(error)
        is_right = False
    print(f"{'ok' if is_right else 'FAILED'} ({time.monotonic() - start:.0f} s) {text}", flush=True)
    return is_right


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument(
        "--python", nargs="+", default=[sys.executable], help="the Pythons to install with"
    )
    parser.add_argument(
        "--tests", nargs="+", default=["-n", "2"], help='what pytest is given, or "none"'
    )
    options = parser.parse_args()
    pythons = [shutil.which(python) or python for python in options.python]
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        # not in the source, all of which has its place
        os.environ["FUSIONC_PROCESS_LOG_PATH"] = str(folder / "log")
        binaries = environment(pythons[0], folder / "build", "build")
        run(binaries / "python", "-m", "build", "--outdir", folder / "dist", ROOT, cwd=folder)
        [archive] = (folder / "dist").glob("*.tar.gz")
        [wheel] = (folder / "dist").glob("*.whl")
        (folder / "source").mkdir()
        with tarfile.open(archive) as files:
            files.extractall(folder / "source", filter="data")
        source = next((folder / "source").iterdir())
        checks = [
            partial(
                check_installed,
                python,
                distribution,
                source,
                folder / f"{number}-{distribution.suffix[1:]}",
            )
            for number, python in enumerate(pythons)
            for distribution in (wheel, archive)
        ]
        if options.tests != ["none"]:
            checks.append(partial(check_source, pythons[0], source, options.tests))
        held = [told(check) for check in checks]
        return int(not all(held))


if __name__ == "__main__":
    sys.exit(main())
