"""Convert a model to a configuration, to measure it or to deliver it."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from tempfile import TemporaryDirectory

from fusionc.conversion import conversion_story
from fusionc.options import Options
from fusionc.passes import PASSES
from fusionc.report import Report
from fusionc.switches import preset
from fusionc.tune.configuration import Configuration


def convert_to(options: Options, configuration: Configuration) -> Report:
    """Convert to this configuration, based on the user's options. For the original, every pass is
    off, but requested sizes and outputs still apply, so that it can be compared with the other
    forms.
    """
    if not configuration.is_original:
        return conversion_story.convert(configuration.options(options, options.destination))
    with TemporaryDirectory() as folder:
        switches = Path(folder, "switches.json")
        switches.write_text(preset("all_off", PASSES), encoding="utf-8")
        plain = replace(
            options,
            fusion_switch_file=switches,
            optimization_switch=None,
            enable_graph_kernel=False,
            graph_kernel_flags=None,
        )
        return conversion_story.convert(plain)
