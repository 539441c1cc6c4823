"""Which passes run: the switch file, --optimization_switch and --oo_level, turned into one set of
decisions.
"""

from fusionc.switches.decide import Switches, decide
from fusionc.switches.levels import Levels
from fusionc.switches.names import PassNames
from fusionc.switches.presets import PRESETS, preset

__all__ = ["PRESETS", "Levels", "PassNames", "Switches", "decide", "preset"]
