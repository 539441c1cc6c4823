"""Which passes run: the switch file, --optimization_switch and --oo_level, turned into one set of decisions."""

from fusionc.switches.decide import Switches, decide
from fusionc.switches.levels import Levels
from fusionc.switches.names import PassNames
from fusionc.switches.template import template

__all__ = ["Levels", "PassNames", "Switches", "decide", "template"]
