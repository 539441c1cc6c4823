"""The table of keys in an `aipp_op` block of a configuration file. Names, types and defaults are
those of CANN.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

YUV420SP = "YUV420SP_U8"
XRGB8888 = "XRGB8888_U8"
RGB888 = "RGB888_U8"
YUV400 = "YUV400_U8"
STATIC = "static"
DYNAMIC = "dynamic"

_INT32 = (-(2**31), 2**31 - 1)
_FLOAT16 = (-65504, 65504)
_BYTE = (0, 255)


@dataclass(frozen=True)
class Key:
    """A key of a block. A key has `limits` or `choices` or neither, but not both."""

    type: type[bool] | type[int] | type[float] | type[str]
    default: bool | int | float | str | None = None  # None if the key has no default
    limits: tuple[float, float] | None = None  # the smallest and the largest number
    choices: Mapping[str, int] | None = None  # the allowed words, with their numbers in CANN
    # why fusionc refuses every value other than the default; empty if other values are allowed
    refusal: str = ""

    @property
    def advice(self) -> str:
        """What to give as the value of the key."""
        if self.choices is not None:
            return f"give {' or '.join(self.choices)}"
        if self.limits is not None:
            noun = "an integer" if self.type is int else "a number"
            return f"give {noun} from {self.limits[0]:.0f} to {self.limits[1]:.0f}"
        return {bool: "give true or false", str: 'give a text in quotes: "x"'}.get(
            self.type, "give a number"
        )


def _switch(refusal: str = "") -> Key:
    return Key(bool, False, refusal=refusal)


def _size(refusal: str = "") -> Key:
    return Key(int, 0, (0, _INT32[1]), refusal=refusal)


def _each(pattern: str, count: int, key: Key) -> dict[str, Key]:
    """The same key under `count` names: `pattern` with each number from 0."""
    return {pattern.format(number): key for number in range(count)}


_RESERVED = "CANN reserves this key, and it has no effect there"
_RESIZE = "images are not resized; resize them before they are given to the model"

KEYS: Mapping[str, Key] = {
    "aipp_mode": Key(str, choices={STATIC: 1, DYNAMIC: 2}),
    "related_input_rank": _size(),
    "related_input_name": Key(str, ""),
    "input_edge_idx": Key(
        int, None, _INT32, refusal="the preprocessing applies to all consumers of an input"
    ),
    "max_src_image_size": _size(),  # only for dynamic mode, in which ATC needs it
    "support_rotation": _switch(_RESERVED),
    "input_format": Key(str, choices={YUV420SP: 1, XRGB8888: 2, RGB888: 3, YUV400: 4}),
    "csc_switch": _switch(),
    "rbuv_swap_switch": _switch(),
    "ax_swap_switch": _switch(),
    "single_line_mode": _switch(_RESERVED),
    "cpadding_value": Key(float, 0.0, _FLOAT16, refusal=_RESERVED),
    "rotation_angle": _size(_RESERVED),
    "src_image_size_w": _size(),
    "src_image_size_h": _size(),
    "crop": _switch(),
    "load_start_pos_w": _size(),
    "load_start_pos_h": _size(),
    "crop_size_w": _size(),
    "crop_size_h": _size(),
    "resize": _switch(_RESIZE),
    "resize_output_w": _size(_RESIZE),
    "resize_output_h": _size(_RESIZE),
    "padding": _switch(),
    "left_padding_size": _size(),
    "right_padding_size": _size(),
    "top_padding_size": _size(),
    "bottom_padding_size": _size(),
    "padding_value": Key(float, 0.0, _FLOAT16),
    **_each("mean_chn_{}", 4, Key(int, 0, _BYTE)),
    **_each("min_chn_{}", 4, Key(float, 0.0, _BYTE)),
    **_each("var_reci_chn_{}", 4, Key(float, 1.0, _FLOAT16)),
    # The following keys have no default here, because it depends on the format of the image.
    **_each("matrix_r0c{}", 3, Key(int, None, (-32768, 32767))),
    **_each("matrix_r1c{}", 3, Key(int, None, (-32768, 32767))),
    **_each("matrix_r2c{}", 3, Key(int, None, (-32768, 32767))),
    **_each("input_bias_{}", 3, Key(int, None, _BYTE)),
    **_each("output_bias_{}", 3, Key(int, None, _BYTE)),
}
