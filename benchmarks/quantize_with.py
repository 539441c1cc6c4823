"""Quantize a model with a public tool, in an environment that has the tool.

    python -m venv nncf && nncf/bin/pip install nncf onnx onnxruntime
    nncf/bin/python benchmarks/quantize_with.py nncf model.onnx inputs.npz made/nncf-resnet18.onnx

    tool                environment                             settings
    nncf                nncf onnx onnxruntime                   nncf.quantize, its defaults
    nncf_mixed          the same                                preset MIXED
    nncf_weights        the same                                compress_weights, INT8_ASYM
    modelopt            'nvidia-modelopt[onnx]'                 int8; the rest in float16
    modelopt_f32        the same                                int8, high_precision_dtype fp32
    quark               amd-quark onnx onnxruntime              configuration S8S8_AAWS
    quark_u8            the same                                configuration U8S8_AAWS
    inc                 onnx-neural-compressor                  static, its defaults
    inc_dynamic         the same                                dynamic, its defaults
    onnx_quantize       onnx-quantize                           dynamic, its defaults
    shrink_ray          onnx-shrink-ray                         quantize_weights
    ppq                 esp-ppq torch                           TRT_INT8, of a model of fixed sizes
    torch               torch torchao onnx onnxscript           pt2e of residual convolutions
    tflite              tensorflow tf2onnx                      int8 of a MobileNetV2, by tf2onnx

The last two make their own model with random weights, and do not need MODEL. Each array in INPUTS
has the name of an input. The samples are these arrays, and copies with some noise. OUT.npz, next to
OUT.onnx, gets the inputs for a run.
"""

from __future__ import annotations

import argparse
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np

Feeds = dict[str, np.ndarray]
_SAMPLES = 8


def samples(inputs: Feeds) -> Iterator[Feeds]:
    """The inputs, and copies in which floating-point numbers are changed a little."""
    random = np.random.default_rng(0)
    for number in range(_SAMPLES):
        yield {
            name: array
            if array.dtype.kind != "f" or not number
            else (array + 0.02 * array.std() * random.standard_normal(array.shape)).astype(
                array.dtype
            )
            for name, array in inputs.items()
        }


class Reader:
    """The calibration data reader for onnxruntime and tools with the same interface."""

    def __init__(self, inputs: Feeds) -> None:
        self.inputs = inputs
        self.rewind()

    def rewind(self) -> None:
        self._rest = samples(self.inputs)

    def get_next(self) -> Feeds | None:
        return next(self._rest, None)


def nncf(model: Path, inputs: Feeds, target: Path, **how: Any) -> None:
    import nncf as tool
    import onnx

    dataset = tool.Dataset(list(samples(inputs)))
    onnx.save(tool.quantize(onnx.load(model), dataset, subset_size=_SAMPLES, **how), target)


def nncf_mixed(model: Path, inputs: Feeds, target: Path) -> None:
    import nncf as tool

    nncf(model, inputs, target, preset=tool.QuantizationPreset.MIXED)


def nncf_weights(model: Path, inputs: Feeds, target: Path) -> None:
    import nncf as tool
    import onnx

    mode = tool.CompressWeightsMode.INT8_ASYM
    onnx.save(tool.compress_weights(onnx.load(model), mode=mode), target)


def modelopt(model: Path, inputs: Feeds, target: Path, **how: Any) -> None:
    from modelopt.onnx.quantization import quantize

    quantize(
        str(model),
        quantize_mode="int8",
        calibration_data=inputs,
        calibration_eps=["cpu"],
        output_path=str(target),
        **how,
    )


def modelopt_f32(model: Path, inputs: Feeds, target: Path) -> None:
    modelopt(model, inputs, target, high_precision_dtype="fp32")


def quark(model: Path, inputs: Feeds, target: Path, configuration: str = "S8S8_AAWS") -> None:
    from quark.onnx import ModelQuantizer
    from quark.onnx.quantization.config import Config, get_default_config

    config = Config(global_quant_config=get_default_config(configuration))
    ModelQuantizer(config).quantize_model(str(model), str(target), Reader(inputs))


def quark_u8(model: Path, inputs: Feeds, target: Path) -> None:
    quark(model, inputs, target, "U8S8_AAWS")


def inc(model: Path, inputs: Feeds, target: Path) -> None:
    from onnx_neural_compressor.quantization import config, quantize

    quantize(str(model), str(target), config.StaticQuantConfig(Reader(inputs)))


def inc_dynamic(model: Path, inputs: Feeds, target: Path) -> None:
    from onnx_neural_compressor.quantization import config, quantize

    quantize(str(model), str(target), config.DynamicQuantConfig())


def onnx_quantize(model: Path, inputs: Feeds, target: Path) -> None:
    import onnx
    from onnx_quantize import QConfig, quantize

    config = QConfig(is_static=False)
    onnx.save(quantize(onnx.load(model), config), target)


def shrink_ray(model: Path, inputs: Feeds, target: Path) -> None:
    import onnx
    from onnx_shrink_ray.shrink import quantize_weights

    onnx.save(quantize_weights(onnx.load(model)), target)


def ppq(model: Path, inputs: Feeds, target: Path) -> None:
    import onnx
    import torch
    from esp_ppq import QuantizationSettingFactory
    from esp_ppq.api import export_ppq_graph, quantize_onnx_model
    from esp_ppq.core import TargetPlatform

    (name,) = inputs
    graph = quantize_onnx_model(
        onnx_import_file=str(model),
        calib_dataloader=[torch.from_numpy(feeds[name]) for feeds in samples(inputs)],
        calib_steps=_SAMPLES,
        input_shape=list(inputs[name].shape),
        setting=QuantizationSettingFactory.default_setting(),
        platform=TargetPlatform.TRT_INT8,
        device="cpu",
    )
    export_ppq_graph(graph, TargetPlatform.ONNXRUNTIME, str(target))
    made = onnx.load(target)  # this file declares opset 13, and has an attribute of opset 14
    for node in made.graph.node:
        kept = [one for one in node.attribute if one.name != "allowzero"]
        del node.attribute[:]
        node.attribute.extend(kept)
    onnx.save(made, target)


def torch(model: Path | None, inputs: Feeds, target: Path) -> None:
    import torch as tool
    from torchao.quantization.pt2e import move_exported_model_to_eval
    from torchao.quantization.pt2e.quantize_pt2e import convert_pt2e, prepare_pt2e
    from torchao.quantization.pt2e.quantizer import x86_inductor_quantizer as x86

    class Block(tool.nn.Module):
        def __init__(self, before: int, after: int, stride: int) -> None:
            super().__init__()
            self.first = tool.nn.Conv2d(before, after, 3, stride, 1)
            self.second = tool.nn.Conv2d(after, after, 3, 1, 1)
            self.skip = tool.nn.Conv2d(before, after, 1, stride)

        def forward(self, x: tool.Tensor) -> tool.Tensor:
            return tool.relu(self.second(tool.relu(self.first(x))) + self.skip(x))

    tool.manual_seed(0)
    blocks = [Block(*sizes) for sizes in ((3, 32, 4), (32, 64, 2), (64, 128, 2), (128, 256, 2))]
    ends = [tool.nn.AdaptiveAvgPool2d(1), tool.nn.Flatten(), tool.nn.Linear(256, 1000)]
    network = tool.nn.Sequential(*blocks, *ends).eval()
    (name,) = inputs
    example = (tool.from_numpy(inputs[name]),)
    exported = tool.export.export(network, example).module()
    quantizer = x86.X86InductorQuantizer()
    quantizer.set_global(x86.get_default_x86_inductor_quantization_config())
    prepared = prepare_pt2e(exported, quantizer)
    for feeds in samples(inputs):
        prepared(tool.from_numpy(feeds[name]))
    converted = convert_pt2e(prepared)
    move_exported_model_to_eval(converted)
    tool.onnx.export(converted, example, str(target), dynamo=True, external_data=False)


def tflite(model: Path | None, inputs: Feeds, target: Path) -> None:
    import tensorflow as tool

    network = tool.keras.applications.MobileNetV2(weights=None, input_shape=(224, 224, 3))
    converter = tool.lite.TFLiteConverter.from_keras_model(network)
    converter.optimizations = [tool.lite.Optimize.DEFAULT]
    converter.representative_dataset = lambda: (list(feeds.values()) for feeds in samples(inputs))
    converter.target_spec.supported_ops = [tool.lite.OpsSet.TFLITE_BUILTINS_INT8]
    with tempfile.NamedTemporaryFile(suffix=".tflite") as file:
        file.write(converter.convert())
        file.flush()
        command = [sys.executable, "-m", "tf2onnx.convert", "--tflite", file.name]
        subprocess.run([*command, "--output", target, "--opset", "18"], check=True)


TOOLS: dict[str, Callable[[Any, Feeds, Path], None]] = {
    tool.__name__: tool
    for tool in (
        nncf, nncf_mixed, nncf_weights, modelopt, modelopt_f32, quark, quark_u8, inc, inc_dynamic,
        onnx_quantize, shrink_ray, ppq, torch, tflite,
    )
}  # fmt: skip


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("tool", choices=TOOLS)
    parser.add_argument("model", type=Path, help="- for a tool that makes its own")
    parser.add_argument("inputs", type=Path)
    parser.add_argument("out", type=Path)
    options = parser.parse_args()
    inputs = dict(np.load(options.inputs))
    options.out.parent.mkdir(parents=True, exist_ok=True)
    TOOLS[options.tool](options.model, inputs, options.out)
    import onnx

    # a tool may have renamed the inputs
    names = [value.name for value in onnx.load(options.out, load_external_data=False).graph.input]
    if {*names} != inputs.keys():
        inputs = dict(zip(names, inputs.values(), strict=True))
    np.savez(options.out.with_suffix(".npz"), **inputs)
    return 0


if __name__ == "__main__":
    sys.exit(main())
