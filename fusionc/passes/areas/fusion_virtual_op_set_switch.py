from fusionc.passes.areas._area_pass import AreaPass


class FusionVirtualOpSetSwitch(AreaPass):
    """Operators that only move elements join an area, where they become address computations.

    before   Concat, Split, Slice, Gather, Reshape, Transpose, Expand, Squeeze or Unsqueeze,
             connected to operators that compute
    after    one area with all of them, in which moving elements costs nothing
    refuses  nothing itself. The areas are counted under the other passes; if this pass is off, they
             do not contain operators that move elements
    never    anything without --enable_graph_kernel
    algebra  the kernel reads each element at its original place; results may be rounded
             differently, because the operators of one area are computed together
    source   CANN's FusionVirtualOpSetSwitch
    """
