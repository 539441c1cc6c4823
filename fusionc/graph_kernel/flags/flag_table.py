"""The flags of graph kernel fusion as data: those that have an effect here, and those that have
none.
"""

from __future__ import annotations

import json
from collections.abc import Collection, Iterable
from dataclasses import asdict, dataclass, fields
from typing import Literal

FlagType = Literal["bool", "int", "uint", "text", "list"]
Unsigned = int
Names = tuple[str, ...]

# In enable_pass and disable_pass, one of these words and a dot may precede the name of a pass of
# the registry. Any other word before a dot is a stage of graph kernel fusion.
MANAGERS = ("fusion_group", "backend_fusion")


@dataclass(frozen=True)
class Flags:
    """All flags that have an effect, in the order of MindSpore's list.

    MindSpore does not have `disable_areas` (names of areas). An empty tuple means that the flag is
    not set.
    """

    opt_level: Unsigned = 0
    dump_as_text: bool = False
    enable_stitch_fusion: bool = False
    enable_debug_mode: bool = False
    enable_parallel_op_combine: bool = False
    exact_precision_mode: bool = True
    composite_op_limit_size: int = 200
    enable_expand_ops: Names = ()
    enable_expand_ops_only: Names = ()
    disable_expand_ops: Names = ()
    enable_cluster_ops: Names = ()
    enable_cluster_ops_only: Names = ()
    disable_cluster_ops: Names = ()
    enable_simplify_exprs_only: Names = ()
    disable_simplify_exprs: Names = ()
    enable_pass: Names = ()
    disable_pass: Names = ()
    enable_fusion_pattern_only: Names = ()
    disable_fusion_pattern: Names = ()
    enable_packet_ops_only: Names = ()
    disable_packet_ops: Names = ()
    disable_areas: Names = ()

    @property
    def is_on(self) -> bool:
        """Whether graph kernel fusion runs at all."""
        return self.opt_level > 0

    def as_json(self) -> str:
        """All values on one line, for the log."""
        return json.dumps(asdict(self))

    def entries(self, *endings: str) -> list[tuple[str, str]]:
        """The entries of all lists whose flags have one of these endings, as pairs (flag,
        entry).
        """
        return [
            (key, entry)
            for key, value in vars(self).items()
            if key.endswith(endings)
            for entry in value
        ]

    def expands(self, default: Iterable[str]) -> frozenset[str]:
        """The operators that are expanded: those of `default`, unless flags change them."""
        return _chosen(
            default, self.enable_expand_ops_only, self.enable_expand_ops, self.disable_expand_ops
        )

    def clusters(self, default: Iterable[str]) -> frozenset[str]:
        """The operators that may be in a cluster: those of `default`, unless flags change them."""
        return _chosen(
            default, self.enable_cluster_ops_only, self.enable_cluster_ops, self.disable_cluster_ops
        )

    def has_pattern(self, name: str) -> bool:
        """Whether a split pattern runs. An entry of a flag means all patterns whose names contain
        it.
        """
        if self.enable_fusion_pattern_only:
            return any(part in name for part in self.enable_fusion_pattern_only)
        return not any(part in name for part in self.disable_fusion_pattern)

    def has_packet(self, users: Collection[str]) -> bool:
        """Whether the flags allow a packet (a kernel that computes sizes) for these users of the
        sizes.
        """
        if self.enable_packet_ops_only:
            return any(user in self.enable_packet_ops_only for user in users)
        return not any(user in self.disable_packet_ops for user in users)

    def has_rule(self, rule: str) -> bool:
        """Whether the rule of arithmetic simplification with this id (such as 1.5) is applied."""
        if self.enable_simplify_exprs_only:
            return rule in self.enable_simplify_exprs_only
        return rule not in self.disable_simplify_exprs


def _chosen(
    default: Iterable[str], only: tuple[str, ...], more: tuple[str, ...], less: tuple[str, ...]
) -> frozenset[str]:
    return frozenset(only) if only else (frozenset(default) | frozenset(more)) - frozenset(less)


_TYPES: dict[str, FlagType] = {"bool": "bool", "int": "int", "Unsigned": "uint", "Names": "list"}
EFFECTIVE = {field.name: _TYPES[str(field.type)] for field in fields(Flags)}

# Flags of MindSpore for special chips, other code generators, training, or tuning. The kernels here
# do not need them.
WITHOUT_EFFECT: dict[str, FlagType] = {
    "enable_recompute_fusion": "bool",
    "enable_parallel_fusion": "bool",
    "enable_horizontal_fusion": "bool",
    "enable_auto_tensor_inplace": "bool",
    "enable_dynamic_batch": "bool",
    "enable_low_precision": "bool",
    "enable_csr_fusion": "bool",
    "enable_lite_conv_tuning": "bool",
    "disable_matmul_post_fusion": "bool",
    "enable_vectorization": "bool",
    "enable_allreduce_prologue_fusion": "bool",
    "enable_allreduce_epilogue_fusion": "bool",
    "enable_dynamic_shape_fusion": "bool",
    "enable_cce_lib": "bool",
    "reduce_fuse_depth": "int",
    "online_tuning": "uint",
    "cpu_refer_thread_num": "uint",
    "fusion_ops_level": "uint",
    "parallel_ops_level": "uint",
    "recompute_increment_threshold": "int",
    "recompute_peak_threshold": "int",
    "repository_path": "text",
    "cpu_arch": "text",
    "cpu_feature": "text",
    "cpu_type": "text",
    "target_os": "text",
    "kernel_generator": "text",
    "enable_cce_lib_ops": "list",
    "enable_cce_lib_ops_only": "list",
    "disable_cce_lib_ops": "list",
}
