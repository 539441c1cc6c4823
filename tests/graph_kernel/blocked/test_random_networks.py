"""Programs of random networks compute what onnxruntime computes, wherever their images lie."""

from __future__ import annotations

import pytest
from networks import areas_of, check, values_of
from random_networks import RandomNetwork


@pytest.mark.parametrize("seed", range(40))
def test_random_networks(seed: int) -> None:
    made = RandomNetwork(f"random/{seed}")
    model = made.network.model()
    found = areas_of(model)
    names = [name for one in found for name in one.images.values()]
    values = values_of(model, made.network.feeds(made.sizes), names)
    for one in found:
        check(one.area, one.tensors(values))
