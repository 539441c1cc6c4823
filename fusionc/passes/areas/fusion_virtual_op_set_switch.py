from fusionc.passes.areas._area_pass import AreaPass


class FusionVirtualOpSetSwitch(AreaPass):
    """Inside an area, operators that only move elements become addresses.

    before   Concat, Split, Slice, Gather, Reshape, Transpose, Expand, Squeeze, Unsqueeze among
             operators that compute
    after    the same area with them inside: they cost nothing
    refuses  nothing itself: the areas count for the other passes
    never    without --enable_graph_kernel; if it is off, areas do not contain such operators
    algebra  an element is read in place; rounding depends on the operators that share a kernel
    source   CANN's FusionVirtualOpSetSwitch
    """
