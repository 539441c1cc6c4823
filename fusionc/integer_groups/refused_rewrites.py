"""The reasons to refuse a rewrite near operators that onnxruntime computes in integers."""

from __future__ import annotations

from collections.abc import Sequence

from fusionc.integer_groups.kept_groups import reason_to_keep_group
from fusionc.integer_groups.misread_scales import reason_to_prevent_fusion
from fusionc.integer_groups.moved_quantizers import reason_to_prevent_move
from fusionc.integer_groups.packed_weights import reason_to_shield_weights
from fusionc.model.graph import Edge, Node


def reason_to_refuse(
    nodes: Sequence[Node],
    new: Sequence[Node],
    pairs: Sequence[tuple[Edge, Edge]],
    *,
    whole_groups: bool,
) -> str:
    """Why `nodes` must not be replaced by the nodes `new`: onnxruntime would no longer compute an
    operator in integers, would compute one wrongly, would round an operand to integers, or could
    not load the model. "" if they may be replaced. `pairs` are the old values with their
    replacements. `whole_groups` is True if the rewrites of the pass change all nodes of a group
    together.
    """
    kept = "" if whole_groups else reason_to_keep_group(nodes, new, pairs)
    return (
        kept
        or reason_to_prevent_fusion(nodes, new, pairs)
        or reason_to_shield_weights(nodes, new, pairs)
        or reason_to_prevent_move(nodes, new, pairs)
    )
