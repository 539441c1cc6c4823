"""Decide which passes run: read the switch file, --optimization_switch and --oo_level."""

from fusionc.switches.decide import Switches, decide
from fusionc.switches.levels import Levels
from fusionc.switches.names import PassNames
from fusionc.switches.presets import PRESETS, preset

__all__ = ["PRESETS", "Levels", "PassNames", "Switches", "decide", "preset"]
