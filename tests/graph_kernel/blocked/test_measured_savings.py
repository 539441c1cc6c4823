"""Of which sizes an area of convolutions is measured: those that its estimate is of."""

from __future__ import annotations

import numpy as np
import pytest
from networks import Network, only_area

from fusionc.graph_kernel.blocked.make_program import program_of
from fusionc.graph_kernel.lower.symbolic_sizes import Unsupported
from fusionc.graph_kernel.measured_savings import _sized_area


@pytest.mark.parametrize("is_image_first", [False, True])
def test_a_batch_of_images_is_one_whatever_rows_have_it_too(is_image_first: bool) -> None:
    n = Network()
    image = n.conv(n.input("N", 16, "H", 20), 16, 32) if is_image_first else ""
    gate = n.op("Sigmoid", n.product(n.input("N", 24), 24, 32))
    image = image or n.conv(n.input("N", 16, "H", 20), 16, 32)
    n.outputs = [n.op("Mul", image, n.op("Unsqueeze", gate, n.const([2, 3], np.int64)))]
    area = only_area(n.model()).area
    made = program_of(area)
    sized = _sized_area(area, made)
    shapes = {sized.values[name].shape for name in area.inputs if name in made.images}
    assert shapes == {(1, 24), (1, 16, made.unknown, 20)}


def test_a_size_of_another_input_is_not_guessed() -> None:
    n = Network()
    area = only_area(n.model(n.product(n.input("M", 24), 24, 32))).area
    made = program_of(area)
    (rows,) = (name for name in area.inputs if name in made.images)
    made.images.pop(rows)
    with pytest.raises(Unsupported):
        _sized_area(area, made)
