"""AIPP, pixel by pixel, from the keys of a configuration: shares nothing with fusionc's NumPy form."""

from __future__ import annotations

from typing import Any

import numpy as np

SIZES = {"YUV420SP_U8": 1, "RGB888_U8": 3, "XRGB8888_U8": 4, "YUV400_U8": 1}


def pixel_of(image: Any, config: dict[str, Any], row: int, column: int) -> list[int]:
    """The channels of one pixel, exchanged as the switches say."""
    pixel = [int(number) for number in image[row, column]]
    if config["input_format"] == "YUV420SP_U8":
        height = len(image) * 2 // 3
        colors = height + row // 2
        even = column - column % 2
        pixel += [int(image[colors, even, 0]), int(image[colors, even + 1, 0])]
    if config.get("rbuv_swap_switch"):
        first, last = {"YUV420SP_U8": (1, 2), "RGB888_U8": (0, 2), "XRGB8888_U8": (1, 3)}[
            config["input_format"]
        ]
        pixel[first], pixel[last] = pixel[last], pixel[first]
    if config.get("ax_swap_switch"):
        pixel.append(pixel.pop(0))
    return pixel


def other_colors(pixel: list[int], config: dict[str, Any]) -> list[int]:
    is_yuv = config["input_format"] == "YUV420SP_U8"
    if config["input_format"] == "XRGB8888_U8":
        pixel = pixel[:3] if config.get("ax_swap_switch") else pixel[1:]
    result = []
    for row in range(3):
        total = 0
        for column in range(3):
            bias = config.get(f"input_bias_{column}", 0) if is_yuv else 0
            total += config[f"matrix_r{row}c{column}"] * (pixel[column] - bias)
        bias = 0 if is_yuv else config.get(f"output_bias_{row}", 0)
        result.append(min(max((total >> 8) + bias, 0), 255))
    return result


def preprocessed(image: Any, config: dict[str, Any], channels: int) -> Any:
    """One image (rows, columns, bytes) as the model takes it: (channels, height, width)."""
    top = config.get("load_start_pos_h", 0) if config.get("crop") else 0
    left = config.get("load_start_pos_w", 0) if config.get("crop") else 0
    rows = len(image) * 2 // 3 if config["input_format"] == "YUV420SP_U8" else len(image)
    height = config["crop_size_h"] if config.get("crop") else rows
    width = config["crop_size_w"] if config.get("crop") else image.shape[1]
    values = np.zeros((channels, height, width))
    for row in range(height):
        for column in range(width):
            pixel = pixel_of(image, config, top + row, left + column)
            if config.get("csc_switch"):
                pixel = other_colors(pixel, config)
            for c in range(channels):
                mean = config.get(f"mean_chn_{c}", 0) + config.get(f"min_chn_{c}", 0.0)
                values[c, row, column] = (pixel[c] - mean) * config.get(f"var_reci_chn_{c}", 1.0)
    if not config.get("padding"):
        return values
    sizes = {
        side: config.get(f"{side}_padding_size", 0) for side in ("top", "bottom", "left", "right")
    }
    padded = np.full(
        (
            channels,
            sizes["top"] + height + sizes["bottom"],
            sizes["left"] + width + sizes["right"],
        ),
        config.get("padding_value", 0.0),
    )
    padded[:, sizes["top"] : sizes["top"] + height, sizes["left"] : sizes["left"] + width] = values
    return padded
