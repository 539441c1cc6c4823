"""Quantize trained models from packages with public tools, each in its own environment.

    python benchmarks/packages.py trained --install
    python benchmarks/make_quantized.py trained tools made               all tools: some GB, an hour
    python benchmarks/make_quantized.py trained tools made --only nncf
    python benchmarks/quantized_files.py trained made

`tools` has an environment for each tool, which is created if it does not exist. pip's environment
variables apply, for example PIP_CONSTRAINT for a torch without CUDA. `made` gets TOOL-MODEL.onnx
and its inputs; existing files are not made again. quantize_with.py has the settings of each tool.
Exit code 1 if a tool fails.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import venv
from pathlib import Path

import numpy as np
from content import INSTALLED, picture
from packages import feeds_of
from rich.console import Console

import fusionc

_ONNX = ("onnx", "onnxruntime")
ENVIRONMENTS = {
    "nncf": ("nncf", *_ONNX),
    "modelopt": ("nvidia-modelopt[onnx]",),
    "quark": ("amd-quark", *_ONNX),
    "inc": ("onnx-neural-compressor", "neural-compressor", "prettytable", "scipy", "transformers"),
    "small": ("onnx-quantize", "onnx-shrink-ray"),
    "ppq": ("esp-ppq",),
    "torch": ("torch", "torchao", "onnxscript", *_ONNX),
    "tflite": ("tensorflow-cpu", "tf2onnx"),
}
# by tool of quantize_with.py: its environment, and the models that it gets
TOOLS = {
    "nncf": ("nncf", ("resnet18", "khmersm")),
    "nncf_mixed": ("nncf", ("resnet18",)),
    "nncf_weights": ("nncf", ("khmersm",)),
    "modelopt": ("modelopt", ("resnet18", "khmersm")),
    "modelopt_f32": ("modelopt", ("resnet18",)),
    "quark": ("quark", ("resnet18", "khmersm")),
    "quark_u8": ("quark", ("resnet18",)),
    "inc": ("inc", ("resnet18", "khmersm")),
    "inc_dynamic": ("inc", ("khmersm",)),
    "onnx_quantize": ("small", ("khmersm",)),
    "shrink_ray": ("small", ("resnet18", "khmersm")),
    "ppq": ("ppq", ("resnet18_fixed",)),
    "torch": ("torch", ("pictures",)),
    "tflite": ("tflite", ("pictures_last",)),
}
MODELS = {"resnet18": "combined_resnet18_benign_plus_malimg", "khmersm": "khmersm/model"}
_FIXED = {"input": (1, 3, 224, 224)}


def prepared(trained: Path, folder: Path) -> dict[str, tuple[str, Path]]:
    """By name: a model and a file of inputs. The model is "-" if a tool makes its own model."""
    folder.mkdir(parents=True, exist_ok=True)
    found = dict[str, tuple[str, Path]]()
    for name, ending in MODELS.items():
        path = next(trained.rglob(f"{ending}.onnx"))
        np.savez(folder / f"{name}.npz", **feeds_of(ending, path))
        found[name] = (os.fspath(path), folder / f"{name}.npz")
    # without fusions: the same model, but with known sizes
    fixed = folder / "resnet18_fixed.onnx"
    model, inputs = found["resnet18"]
    off = "TbeConvElemwiseFusionPass:off"
    fusionc.convert(
        model,
        output=fixed,
        input_shape=_FIXED,
        optimization_switch=off,
        verify=False,
        export_compile_stat=0,
    )
    found["resnet18_fixed"] = (os.fspath(fixed), inputs)
    for name, is_last in (("pictures", False), ("pictures_last", True)):
        shape = (1, 224, 224, 3) if is_last else (1, 3, 224, 224)
        image = picture("astronaut.png", channels_last=is_last)(shape)
        np.savez(folder / f"{name}.npz", x=image)
        found[name] = ("-", folder / f"{name}.npz")
    return found


def python_of(tools: Path, environment: str) -> Path:
    """The interpreter of an environment, which is created if it does not exist."""
    folder = tools / environment
    done = folder / "installed"
    if not done.is_file():
        venv.create(folder, with_pip=True)
        command = [folder / "bin/python", "-m", "pip", "install", "--quiet"]
        subprocess.run([*command, *ENVIRONMENTS[environment]], check=True)
        done.touch()
    return folder / "bin/python"


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("trained", type=Path)
    parser.add_argument("tools", type=Path)
    parser.add_argument("made", type=Path)
    parser.add_argument("--only", default="", help="tools whose name contains this word")
    options = parser.parse_args()
    INSTALLED[0] = options.trained
    console = Console(stderr=True)
    inputs = prepared(options.trained, options.tools / "inputs")
    failed = 0
    for tool, (environment, names) in TOOLS.items():
        for name in names if options.only in tool else ():
            target = options.made / f"{tool}-{name}.onnx"
            if target.is_file():
                continue
            console.print(f"{tool}: {name}")
            try:
                python = python_of(options.tools, environment)
                script = Path(__file__).with_name("quantize_with.py")
                subprocess.run([python, script, tool, *inputs[name], target], check=True)
            except subprocess.CalledProcessError as problem:
                failed += 1
                console.print(f"{tool} fails: exit code {problem.returncode}", style="red")
    return int(failed > 0)


if __name__ == "__main__":
    sys.exit(main())
