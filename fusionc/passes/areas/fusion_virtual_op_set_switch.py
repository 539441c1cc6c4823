from fusionc.passes.areas._area_pass import AreaPass


class FusionVirtualOpSetSwitch(AreaPass):
    """Inside an area, operators that only move elements become addresses.

    before   Concat, Split, Slice, Gather, Reshape, Transpose, Expand, Squeeze, Unsqueeze among
             operators that compute
    after    the same area with them inside: they cost nothing
    refuses  nothing itself: the areas count for the other passes
    never    without --enable_graph_kernel; off, no area has such an operator
    algebra  an element is read where it lies; which operators share a kernel decides how these
             round
    source   CANN's FusionVirtualOpSetSwitch
    """
