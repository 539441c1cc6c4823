from fusionc.passes.areas._area_pass import AreaPass


class FusionVirtualOpSetSwitch(AreaPass):
    """Operators that only move elements join an area, where they become address computations.

    before   Concat, Split, Slice, Gather, Reshape, Transpose, Expand, Squeeze or Unsqueeze,
             connected to operators that compute
    after    one area with all of them, in which moving elements costs nothing
    refuses  nothing itself: the areas are counted under the other passes
    never    without --enable_graph_kernel. If this pass is off, areas do not contain such operators
    algebra  the kernel reads each element at its original place; results may be rounded differently
             because other operators share the kernel
    source   CANN's FusionVirtualOpSetSwitch
    """
