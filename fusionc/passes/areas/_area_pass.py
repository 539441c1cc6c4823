"""The base class of passes that graph kernel fusion carries out."""

from fusionc.rewrite import Pattern, UBFusionPass


class AreaPass(UBFusionPass):
    """Graph kernel fusion counts areas of one kind under the name of this pass, and makes them only
    if the pass is on.

    Graph kernel fusion runs after all other passes, and only if graph kernels are enabled. At its
    place in the registry, the pass matches nothing.
    """

    numerics = "rounding"
    patterns = (Pattern("area", find=lambda graph: ()),)
