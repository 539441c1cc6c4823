"""Write every cluster (operators from which areas are made) and its areas as text files.

The folder and the names of the files are MindSpore's.
"""

from __future__ import annotations

import os
from collections.abc import Iterable
from pathlib import Path

import onnx.printer

from fusionc.graph_kernel.fusion import Fused
from fusionc.graph_kernel.select.area_values import named
from fusionc.graph_kernel.select.make_area import function_of
from fusionc.graph_kernel.select.plan import Plan
from fusionc.graph_kernel.select.split.regions import Region
from fusionc.model.graph import Node

FOLDER = Path("graph_kernel_dump")
_RULE = "=" * 23


def dump(fused: Fused, source: str) -> list[str]:
    """Write the clusters, their areas and the C `source` of the kernels.

    Returns one message, which says where the files are or why they are not written.
    """
    number = os.getpid()
    files = {
        f"graph_kernel_cluster_{number}.txt": "".join(map(_cluster, fused.plans)),
        f"graph_kernel_split_mode.{number}.txt": "".join(map(_split, fused.plans)),
        f"fusionc_kernel_{number}.txt": "\n".join(
            str(onnx.printer.to_text(function_of(a))) for a in fused.areas
        ),
        f"fusionc_kernel_{number}.c": source,
    }
    try:
        FOLDER.mkdir(exist_ok=True)
        for name, text in files.items():
            _append(FOLDER / name, text)
    except OSError as error:
        return [f"{FOLDER} is not written: {error.strerror}"]
    return [
        (
            f"{FOLDER} has the stages of every cluster and the C text, in the files with "
            f"{number} in their names"
        )
    ]


def _append(file: Path, text: str) -> None:
    """Append to a dump file of this process. Between two conversions, the file is read-only."""
    if file.exists():
        file.chmod(0o644)
    with file.open("a", encoding="utf-8") as stream:
        stream.write(text)
    file.chmod(0o444)


def _cluster(plan: Plan) -> str:
    name = f"{'_'.join(node.op for node in plan.nodes)}_fusion"
    outputs = ", ".join(value.name for location in plan.locations for value in location.outputs)
    lines = [
        f"Source nodes of {name} = {name}({len(plan.nodes)} operators) -> {outputs or 'no area'}"
    ]
    lines += [f"  {node.label()} = {_text(node)}" for node in plan.nodes]
    return "\n".join([*lines, _RULE, ""])


def _split(plan: Plan) -> str:
    name = "_".join(node.op for node in plan.nodes)
    lines = [f"********** main graph: {name}_fusion **********", "graph desc:", *_texts(plan.nodes)]
    if not plan.locations:
        return "\n".join([*lines, "Graph unchanged.", ""])
    for number, region in enumerate(plan.regions):
        lines.append(f"-------- subgraph {number}, mode: {_mode(region)} --------")
        lines += _texts(sorted(region.nodes, key=lambda node: node.position))
    return "\n".join([*lines, ""])


def _mode(region: Region) -> str:
    return "basic" if region.is_lone or not region.is_composite else "composite"


def _texts(nodes: Iterable[Node]) -> list[str]:
    return [f"  {_text(node)}" for node in nodes]


def _text(node: Node) -> str:
    return " ".join(str(onnx.printer.to_text(named(node))).split())
