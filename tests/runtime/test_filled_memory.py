from __future__ import annotations

import sys

import numpy as np
import pytest
from harness import parse

from fusionc.runtime.filled_memory import filled_memory
from fusionc.runtime.runner import Runner, closes_runners

TEXT = "agraph (float[N,5] x) => (float[A,7] y) <float[3,2] c = {1,2,3,4,5,6}> { y = Concat <axis = 1> (c, x) }"


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="of glibc")
@closes_runners
def test_memory_that_nobody_writes_holds_the_byte() -> None:
    """onnxruntime writes nothing in place of an operand without elements."""
    model = parse(TEXT)
    for byte in (0x4B, 0xC6):
        with filled_memory(byte):
            (y,) = Runner(model.SerializeToString()).run({"x": np.zeros((0, 5), np.float32)})
        assert np.array_equal(y[:, :2], [[1, 2], [3, 4], [5, 6]])
        assert set(np.ascontiguousarray(y[:, 2:]).tobytes()) == {byte}
