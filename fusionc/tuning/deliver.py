"""From what was confirmed to files: the model, converted and verified, a switch file, settings and a plot."""

from __future__ import annotations

import json
import os
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from tempfile import TemporaryDirectory

from fusionc import conversion
from fusionc.bisection.changed_switches import changed_switches
from fusionc.custom.loading import load_passes
from fusionc.disk.places import cannot_be_written
from fusionc.disk.small_files import replace_text
from fusionc.errors import FusioncError, UsageError
from fusionc.options import Options
from fusionc.passes import PASSES
from fusionc.ready.session_file import session_file_of
from fusionc.ready.tuned_settings import tuned_text
from fusionc.report import Report
from fusionc.switches import preset
from fusionc.tuning.configuration import Configuration
from fusionc.tuning.confirmation import Confirmation
from fusionc.tuning.decisions import Worth
from fusionc.tuning.worth_plot import worth_plot


def beside(output: Path, ending: str) -> Path:
    """A file of the tuning beside the model: out.onnx → out.<ending>."""
    return output.with_name(f"{output.name.removesuffix('.onnx')}.{ending}")


def require_places(options: Options) -> None:
    """Raise FusioncError where a file of the result would be written over one that no tuning has written, UsageError
    where over one that is read."""
    read = {os.path.realpath(path) for path in (options.fusion_switch_file, *options.custom_passes) if path is not None}
    for ending in ("switches.json", "tune.svg"):
        place = beside(options.destination, ending)
        if os.path.realpath(place) in read:
            hint = "give another --output, or rename the file"
            raise UsageError("this file is read, and would be written", where=str(place), hint=hint, code="E10001")
        if os.path.lexists(place) and not _is_own(place):
            what = "a file of the result would be written over another one, which fusionc did not make"
            raise FusioncError(what, where=str(place), hint="move it away, or give another --output", code="E13004")


def _is_own(place: Path) -> bool:
    with suppress(OSError, ValueError, RecursionError):
        text = place.read_text(encoding="utf-8")
        return text.startswith("<svg ") if place.suffix == ".svg" else set(json.loads(text)) == {"Switch"}
    return False


def converted(options: Options, delivered: Configuration) -> Report:
    """Convert to what was found, verified as every conversion; the original has every pass off."""
    if not delivered.is_original:
        return conversion.convert(delivered.options(options, options.destination))
    with TemporaryDirectory() as folder:
        switches = Path(folder, "switches.json")
        switches.write_text(preset("all_off", PASSES), encoding="utf-8")
        plain = replace(options, fusion_switch_file=switches, optimization_switch=None, enable_graph_kernel=False)
        return conversion.convert(plain)


def written(
    options: Options, delivered: Configuration, worths: Sequence[Worth], last: Confirmation, confidence: float
) -> tuple[Path, Path | None, Path]:
    """The switch file, the session file where there are settings other than onnxruntime's, and the plot."""
    output, registry = options.destination, load_passes(options.custom_passes)
    by_name = {p.name: p for p in registry}
    switches, plot, session = beside(output, "switches.json"), beside(output, "tune.svg"), None
    if delivered.is_original:
        text = preset("all_off", registry)
    else:
        off, on = ([by_name[name] for name in sorted(names)] for names in (delivered.off, delivered.on))
        text = changed_switches(options.fusion_switch_file, registry, off, on)
    try:
        replace_text(switches, text)
        replace_text(plot, worth_plot(options.source.name, worths, last, confidence))
        if delivered.settings != Configuration().settings:
            session = session_file_of(output)
            replace_text(session, tuned_text(output, delivered.settings))
    except OSError as error:
        raise cannot_be_written(error, output) from error
    return switches, session, plot
