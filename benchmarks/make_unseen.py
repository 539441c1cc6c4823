"""Make models on which fusionc was not tuned, in two halves.

    pip install torch==2.13.0 onnxscript transformers==4.37.2 onnxruntime
    python benchmarks/make_unseen.py unseen
    python benchmarks/make_unseen.py unseen --only yolo      networks whose name contains this word
    python benchmarks/make_unseen.py unseen --all            both exporters at both sizes: twice as
                                                             many models

The networks belong to many families (benchmarks/networks). They have random weights and the
statistics of trained networks; those of the package transformers have random configurations. Each
network is exported by both exporters of torch, at a different size by each. The tracing exporter
uses an opset from 11 to 18, and an open batch if possible (for texts of transformers also open
lengths). The other exporter uses its own opset and fixed sizes; a network that it cannot export is
traced instead. A second release of transformers, in an environment of its own, adds its models to
the same folder (--only hf).

FOLDER/tune has the models that developers may examine, and FOLDER/held_out the models that nobody
examines. A seed determines which half of the networks of each group is held out; all models of a
network are in the same half. Both have folders by kind, and the inputs of each model are next to
it. Exit code 1 if a network could not be exported, or if onnxruntime and torch compute different
results.
"""

from __future__ import annotations

import argparse
import logging
import random
import sys
import warnings
import zlib
from collections import defaultdict
from collections.abc import Iterable, Iterator
from pathlib import Path

import numpy as np
import onnxruntime

try:
    import torch
    from networks import (
        convolutional,
        detectors,
        hugging_face,
        language,
        mobile,
        pictures,
        segmentation,
        speech,
        vision,
    )  # fmt: skip
    from networks.network import Inputs, Network, settle
    from torch import Tensor, nn
except ModuleNotFoundError as missing:
    sys.exit(
        f"{missing.name} is not installed: pip install torch==2.13.0 onnxscript "
        "transformers==4.37.2"
    )

FAMILIES = (
    convolutional, mobile, detectors, segmentation, vision, speech, pictures, language,
    hugging_face,
)  # fmt: skip
NETWORKS: list[Network] = [network for family in FAMILIES for network in family.NETWORKS]
OFF = {torch.float32: 1e-3, torch.float16: 5e-2}  # share of the largest element


def halves(networks: Iterable[Network], seed: int) -> dict[str, str]:
    """The half of each network, by name. The release of transformers has no influence.

    If a group gets another network, its halves are drawn again: a network that was examined may
    then be held out, and the reverse.
    """
    groups = defaultdict(set)
    for network in networks:
        groups[network.group].add(family_name(network))
    found = {}
    turn = 0
    for group, names in sorted(groups.items()):
        drawn = sorted(names)
        random.Random(f"{seed} {group}").shuffle(drawn)
        for name in drawn:
            found[name] = ("held_out", "tune")[turn % 2]
            turn += 1
    return found


def family_name(network: Network) -> str:
    return (
        network.name.split("_", 1)[1] if network.group.startswith("hugging face") else network.name
    )


class Borders(nn.Module):
    """A network in bfloat16 with float32 inputs and outputs, because numpy lacks bfloat16."""

    def __init__(self, body: nn.Module) -> None:
        super().__init__()
        self.body = body

    def forward(self, *inputs: Tensor) -> Tensor:
        return self.body(*(x.bfloat16() if x.is_floating_point() else x for x in inputs)).float()


def prepared(network: Network, size: int) -> tuple[nn.Module, Inputs]:
    torch.manual_seed(zlib.crc32(network.name.encode()))
    module = network.module()
    inputs = network.inputs(size)
    settle(module, inputs)
    if network.dtype is torch.bfloat16:
        return Borders(module.to(network.dtype)).eval(), inputs
    if network.dtype is torch.float16:
        inputs = {name: x.half() if x.is_floating_point() else x for name, x in inputs.items()}
        module = module.half()
    return module, inputs


def open_axes(network: Network, inputs: Inputs) -> dict[str, dict[int, str]]:
    """The open axes of the inputs: the batch, and for models of transformers also the length of the
    text and of the past, as users export them.
    """
    if len({x.shape[0] for x in inputs.values()}) > 1:
        return {}
    axes = {name: {0: "batch"} for name in inputs}
    for name, x in inputs.items() if network.group.startswith("hugging face") else ():
        if name.startswith(("key", "value")):
            axes[name][2] = "past"
        elif x.dtype is torch.int64:
            own = "decoder sequence" if name == "decoder_input_ids" else "sequence"
            axes[name][1] = (
                f"past + {own}" if name == "attention_mask" and "key0" in inputs else own
            )
    return axes


def export(
    network: Network, module: nn.Module, inputs: Inputs, path: Path, is_traced: bool
) -> None:
    names = list(inputs)
    if is_traced:
        torch.onnx.export(
            module,
            tuple(inputs.values()),
            path,
            dynamo=False,
            opset_version=network.opset,
            input_names=names,
            dynamic_axes=open_axes(network, inputs),
        )
    else:
        torch.onnx.export(
            module,
            tuple(inputs.values()),
            path,
            dynamo=True,
            input_names=names,
            external_data=False,
            verbose=False,
        )


def compared(module: nn.Module, inputs: Inputs, path: Path) -> float:
    """The difference between the outputs of onnxruntime and torch, divided by the largest element
    of an output. NaN if it is not finite.
    """
    with torch.no_grad():
        answer = module(*inputs.values())
    expected = answer if isinstance(answer, tuple) else (answer,)
    session = onnxruntime.InferenceSession(path, providers=["CPUExecutionProvider"])
    known = {given.name for given in session.get_inputs()}
    found = session.run(None, {name: x.numpy() for name, x in inputs.items() if name in known})
    return max(
        float(
            (torch.from_numpy(one).float() - other.float()).abs().max()
            / other.float().abs().max().clamp(min=1e-3)
        )
        for one, other in zip(found, expected, strict=False)
    )


def models(network: Network, number: int, all_four: bool) -> Iterator[tuple[str, int, bool]]:
    """The name, size and exporter of each model of a network."""
    for place, size in enumerate(dict.fromkeys(network.sizes)):
        for is_traced in (True, False):
            if all_four or len(set(network.sizes)) == 1 or is_traced == ((place + number) % 2 == 0):
                yield (
                    f"{network.name}-{'traced' if is_traced else 'dynamo'}-{size}",
                    size,
                    is_traced,
                )


def make(network: Network, name: str, size: int, is_traced: bool, folder: Path) -> str:
    """Write one model with its inputs. Return the fault if there is one."""
    path = folder / f"{name}.onnx"
    if path.exists():
        return ""
    folder.mkdir(parents=True, exist_ok=True)
    draft = path.with_suffix(".draft")
    try:
        module, inputs = prepared(network, size)
        export(network, module, inputs, draft, is_traced)
        off = 0.0 if network.dtype is torch.bfloat16 else compared(module, inputs, draft)
    except Exception as problem:  # exporters raise errors of many types
        return (
            f"not exported: {type(problem).__name__}: {str(problem).strip().splitlines()[0][:150]}"
        )
    finally:
        if draft.exists():
            draft.replace(path)
    if not off <= OFF.get(network.dtype, 0.0):
        path.unlink()
        return f"onnxruntime's answer is off by {off:.1e}"
    np.savez(path.with_suffix(".npz"), **{name: x.numpy() for name, x in inputs.items()})
    return ""


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("folder", type=Path)
    parser.add_argument("--only", default="", help="networks whose name contains this word")
    parser.add_argument("--all", action="store_true", help="both exporters at both sizes")
    parser.add_argument("--seed", type=int, default=17, help="of the halves")
    options = parser.parse_args()
    warnings.filterwarnings("ignore")
    logging.disable(logging.WARNING)
    onnxruntime.set_default_logger_severity(4)
    torch.set_num_threads(1)
    half = halves(NETWORKS, options.seed)
    made = 0
    wrong = 0
    for number, network in enumerate(NETWORKS):
        if options.only in network.name:
            folder = options.folder / half[family_name(network)] / network.kind
            for name, size, is_traced in models(network, number, options.all):
                problem = make(network, name, size, is_traced, folder)
                if problem and not is_traced:
                    print(
                        f"{folder.parent.name}/{network.kind}/{name}: {problem}; traced instead",
                        flush=True,
                    )
                    name = name.replace("-dynamo-", "-traced-")
                    problem = make(network, name, size, True, folder)
                print(
                    f"{folder.parent.name}/{network.kind}/{name}: {problem or 'made'}", flush=True
                )
                made = made + (not problem)
                wrong = wrong + bool(problem)
    print(f"{made} models, {wrong} left out")
    return 1 if wrong or not made else 0


if __name__ == "__main__":
    sys.exit(main())
