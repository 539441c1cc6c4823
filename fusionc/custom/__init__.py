"""Users' own passes: functions that are searched and replaced, and files that hold them."""

from fusionc.custom.builder import op
from fusionc.custom.loading import load_passes
from fusionc.custom.replacement import register_replacement

__all__ = ["load_passes", "op", "register_replacement"]
