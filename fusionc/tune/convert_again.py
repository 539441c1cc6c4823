"""The command that makes the delivered model of a tuning again, without measuring."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from fusionc.options import Options
from fusionc.options.command_words import words_of
from fusionc.options.option import OptionGroup
from fusionc.tune.configuration import Configuration
from fusionc.tune.deliver import companion_file

# the groups of options that decide which model is written, and whether it counts as right
_ALWAYS = (
    OptionGroup.REQUEST,
    OptionGroup.STORAGE,
    OptionGroup.VERIFICATION,
    OptionGroup.VERDICT,
    OptionGroup.KERNELS,
)


def command_to_convert(options: Options, delivered: Configuration, switches: Path) -> list[str]:
    """The arguments of a command that makes the same model with the switch file of the tuning.

    The command writes to another file than the tuned model. If it wrote to the same file, the
    conversion would remove the session settings of the tuned model, which the command does not
    make.
    """
    again = delivered.options(options, companion_file(options.destination, "again.onnx"))
    # without the option or the flags, a conversion makes no kernels
    asks_for_kernels = delivered.kernels or again.graph_kernel_flags is not None
    again = replace(
        again,
        fusion_switch_file=None,
        # only the user's own switches go on the command line, where they override the switch file
        optimization_switch=again.optimization_switch if options.optimization_switch else None,
        enable_graph_kernel=delivered.kernels if asks_for_kernels else None,
        graph_kernel_flags=None if delivered.is_original else again.graph_kernel_flags,
    )
    groups = _ALWAYS if delivered.is_original else (OptionGroup.PASSES, *_ALWAYS)
    return [
        *("fusionc", "convert", *words_of(again, [OptionGroup.FILES])),
        *("--fusion_switch_file", str(switches)),
        *words_of(again, groups),
    ]
