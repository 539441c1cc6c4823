"""Passes of which graph kernel fusion does the work."""

from fusionc.rewrite import Pattern, UBFusionPass


class AreaPass(UBFusionPass):
    """A name under which graph kernel fusion makes areas, counts and is switched off.

    It runs when all other passes have come to rest, and only where graph kernels are enabled; in
    the order of the registry there is nothing to find.
    """

    numerics = "rounding"
    patterns = (Pattern("area", find=lambda graph: ()),)
