"""Which passes run: the switch file and --optimization_switch, turned into one set of decisions."""

from fusionc.switches.decide import Switches, decide
from fusionc.switches.names import PassNames
from fusionc.switches.template import template

__all__ = ["PassNames", "Switches", "decide", "template"]
