"""Programs compute the same with vectors of each width that the processor has, whatever onnxruntime would take."""

from __future__ import annotations

from pathlib import Path

import pytest
from networks import areas_of, difference, values_of, wanted
from random_networks import RandomNetwork
from standalone_programs import Standalone, widths

_NETWORKS = 15


@pytest.mark.usefixtures("needs_a_compiler")
def test_widths(tmp_path: Path) -> None:
    calls = []
    for seed in range(_NETWORKS):
        made = RandomNetwork(f"widths/{seed}")
        found = areas_of(made.network.model())
        names = [name for one in found for name in one.images.values()]
        values = values_of(made.network.model(), made.network.feeds(made.sizes), names)
        calls += [(one.area, one.tensors(values)) for one in found]
    programs = Standalone([area for area, _ in calls], tmp_path, ["-O0"])
    for area, tensors in calls:
        plain = wanted(area, tensors)
        for width in widths():
            for k, (a, b) in enumerate(zip(plain, programs.run(area, tensors, width), strict=True)):
                problem = difference(a, b)
                assert not problem, f"width {width}, output {k}: {problem}"
