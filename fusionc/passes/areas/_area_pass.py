"""The base class of passes that graph kernel fusion carries out."""

from fusionc.rewrite import Pattern, UBFusionPass


class AreaPass(UBFusionPass):
    """A pass that names a kind of areas: graph kernel fusion counts these areas under its name and
    makes them only if it is switched on.

    Graph kernel fusion runs after all other passes, and only if graph kernels are enabled. At its
    place in the registry, the pass matches nothing.
    """

    numerics = "rounding"
    patterns = (Pattern("area", find=lambda graph: ()),)
