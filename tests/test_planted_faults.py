"""The faults that tests plant are faults: each makes a model compute something else, and is gone
afterwards.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import onnx
import pytest
from harness import make_feeds, optimize, session
from onnxruntime.capi.onnxruntime_pybind11_state import RuntimeException
from planted_faults import FAULTS, Fault, model_of, planted

from fusionc.passes import PASSES

DEFAULT = [p for p in PASSES if p.default != "off"]


@pytest.mark.parametrize("fault", FAULTS, ids=str)
def test_a_planted_fault_is_seen(fault: Fault) -> None:
    model = model_of(fault)
    with planted(fault) as (plant,):
        wrong, _ = optimize(model, DEFAULT)
    assert plant.labels, "the fault has found no place"
    right, _ = optimize(model, DEFAULT)
    assert right != wrong
    pairs = list(outputs(right, wrong))
    assert any(a.shape != b.shape or not np.allclose(a, b, rtol=1e-3, atol=1e-4) for a, b in pairs)


def outputs(right: onnx.ModelProto, wrong: onnx.ModelProto) -> Iterator[tuple[Any, Any]]:
    """What both models give on seeded inputs and on zeros."""
    feeds = make_feeds(right, {"": 2, "batch": 2, "seq": 3}, 0)
    for values in (feeds, {name: np.zeros_like(value) for name, value in feeds.items()}):
        expected = session(right).run(None, values)
        try:
            yield from zip(expected, session(wrong).run(None, values), strict=True)
        except RuntimeException:
            yield np.zeros(1), np.ones(1)
