"""Short names of areas for tables. An area is a group of operators with one generated kernel."""

from __future__ import annotations

import re

from onnx import ModelProto

from fusionc.model.operators import KERNELS

_KIND = re.compile(r"_([a-z]+)_[0-9a-f]{12}$")  # the end of the name that an area gets


def area_labels(model: ModelProto) -> dict[str, str]:
    """A label for each area of a model, by its name: "area 1: 27 operators, blocked"."""
    areas = [function for function in model.functions if function.domain == KERNELS]
    labels = dict[str, str]()
    for number, area in enumerate(areas, 1):
        count = sum(node.op_type != "Constant" for node in area.node)
        kind = _KIND.search(area.name)
        operators = f"{count} operator{'s' * (count != 1)}"
        labels[area.name] = f"area {number}: {operators}{f', {kind[1]}' if kind else ''}"
    return labels
