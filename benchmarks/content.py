"""Inputs for the models of benchmarks: pictures, sounds, text and numbers of the right kind."""

from __future__ import annotations

import math
import sys
from collections.abc import Callable
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.generic]
Source = Callable[[tuple[int, ...]], Array]
INSTALLED = [Path()]  # the folder with the installed wheels; scikit-image is one of them


def picture(
    name: str, mean: float = 127.5, deviation: float = 127.5, channels_last: bool = False
) -> Source:
    """A picture from scikit-image, cut to size and normalized, as [N, C, H, W] or [N, H, W, C]."""

    def read(shape: tuple[int, ...]) -> Array:
        try:
            from PIL import Image
        except ModuleNotFoundError:
            sys.exit("pillow is not installed, which reads the pictures: pip install '.[bench]'")
        channels, height, width = (shape[3], *shape[1:3]) if channels_last else shape[1:]
        image = Image.open(INSTALLED[0] / "skimage/data" / name).convert(
            "RGB" if channels == 3 else "L"
        )
        pixels = np.asarray(image.resize((width, height)), np.float32).reshape(
            height, width, channels
        )
        scaled = np.broadcast_to((pixels - mean) / deviation, (shape[0], height, width, channels))
        return np.ascontiguousarray(scaled if channels_last else scaled.transpose(0, 3, 1, 2))

    return read


def sound(shape: tuple[int, ...]) -> Array:
    """A sound at 16 kHz that resembles a voice: harmonics of a gliding tone, with pauses and some
    noise.
    """
    time = np.arange(math.prod(shape)) / 16000
    tone = np.sin(np.outer(np.arange(1, 12), 2 * np.pi * (120 + 30 * np.sin(5 * time)) * time)).sum(
        0
    )
    noise = np.random.default_rng(0).standard_normal(len(time))
    return (0.05 * tone * (np.sin(9 * time) > 0) + 0.005 * noise).reshape(shape).astype(np.float32)


def zeros(shape: tuple[int, ...]) -> Array:
    return np.zeros(shape, np.float32)


def features(shape: tuple[int, ...]) -> Array:
    return np.random.default_rng(0).standard_normal(shape).astype(np.float32)


def number(value: int) -> Source:
    return lambda shape: np.full(shape, value, np.int64)


def ones(shape: tuple[int, ...]) -> Array:
    return np.ones(shape, np.float32)


def flags(shape: tuple[int, ...]) -> Array:
    return np.ones(shape, np.bool_)


def text(shape: tuple[int, ...]) -> Array:
    """The bytes of a page of text, repeated."""
    return np.resize(np.frombuffer(_PAGE, np.uint8), shape).astype(np.int32)


def tokens(below: int, kind: type[np.generic] = np.int64) -> Source:
    """Text as token numbers in a vocabulary of this size."""
    return lambda shape: (1 + text(shape) % (below - 1)).astype(kind)


def one_hot(shape: tuple[int, ...]) -> Array:
    """Text as rows with a single 1 each."""
    return np.eye(shape[-1], dtype=np.float32)[text(shape[:-1]) % shape[-1]]


_PAGE = (Path(__file__).parents[1] / "README.md").read_bytes()
