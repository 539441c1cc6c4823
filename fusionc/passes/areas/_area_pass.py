"""Passes whose work graph kernel fusion does."""

from fusionc.rewrite import Pattern, UBFusionPass


class AreaPass(UBFusionPass):
    """A name by which graph kernel fusion counts its areas and is switched off.

    It runs after all other passes have finished, and only if graph kernels are enabled; in the
    order of the registry it does not match anything.
    """

    numerics = "rounding"
    patterns = (Pattern("area", find=lambda graph: ()),)
