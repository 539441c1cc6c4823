"""The base class of passes that graph kernel fusion carries out. Graph kernel fusion makes areas:
groups of operators that one generated kernel computes.
"""

from fusionc.rewrite import Pattern, UBFusionPass


class AreaPass(UBFusionPass):
    """A switch and a counter for one kind of area: graph kernel fusion makes such areas only if
    this pass is on, and counts them under its name.

    Graph kernel fusion runs after all other passes, and only if graph kernels are enabled. When
    this pass itself runs, it matches nothing.
    """

    numerics = "rounding"
    patterns = (Pattern("area", find=lambda graph: ()),)
