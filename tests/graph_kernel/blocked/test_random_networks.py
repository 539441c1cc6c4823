"""Programs of random networks compute what onnxruntime computes, wherever their images lie."""

from __future__ import annotations

import pytest
from networks import check_all
from random_networks import RandomNetwork


@pytest.mark.parametrize("seed", range(40))
def test_random_networks(seed: int) -> None:
    made = RandomNetwork(f"random/{seed}")
    check_all(made.network, made.sizes)
