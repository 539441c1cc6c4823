"""Write the files of a tuning next to the model: switches, session settings and a plot."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path

from fusionc.bisect.changed_switches import changed_switches
from fusionc.custom.loading import load_passes
from fusionc.disk.content import content_if_any, content_of
from fusionc.disk.paths import stream_at
from fusionc.disk.places import cannot_be_written
from fusionc.disk.small_files import replace_text
from fusionc.errors import FusioncError, UsageError
from fusionc.options import Options
from fusionc.ready_form.session_file import is_session_file, session_file_of
from fusionc.ready_form.tuned_settings import tuned_text
from fusionc.switches import preset
from fusionc.tune.configuration import Configuration
from fusionc.tune.confirmation import Confirmation
from fusionc.tune.decisions import Worth
from fusionc.tune.worth_plot import worth_plot

_MARK = "<!-- fusionc tune: switches"  # in the plot; hashes of switch files follow


def companion_file(output: Path, ending: str) -> Path:
    """The path of a file of the tuning, next to the model: out.onnx → out.<ending>."""
    return output.with_name(f"{output.name.removesuffix('.onnx')}.{ending}")


def require_places(options: Options) -> None:
    """Raise UsageError if a file of the result would replace a file that the tuning reads. Raise
    FusioncError if it would replace a file that no tuning has written.
    """
    read = {
        os.path.realpath(path)
        for path in (options.fusion_switch_file, *options.custom_passes)
        if path is not None
    }
    for ending in ("switches.json", "tune.svg"):
        place = companion_file(options.destination, ending)
        if os.path.realpath(place) in read:
            hint = "give another --output, or rename the file"
            what = "the result would replace a file that the tuning reads"
            raise UsageError(what, where=str(place), hint=hint, code="E10001")
        if os.path.lexists(place) and not _is_own(place, options.destination):
            what = (
                "the result would replace a file that was not written by a tuning, or was changed"
            )
            hint = "move it away, or give another --output"
            raise FusioncError(what, where=str(place), hint=hint, code="E13004")


def _is_own(place: Path, output: Path) -> bool:
    """Whether a tuning wrote this file. It did if the file is a plot with the mark of tunings, or a
    switch file whose hash is in such a plot.
    """
    with suppress(OSError, ValueError):
        if stream_at(place) or stream_at(companion_file(output, "tune.svg")):
            return False
        _, mark, contents = (
            companion_file(output, "tune.svg").read_text(encoding="utf-8").partition(_MARK)
        )
        return bool(mark) and (place.suffix == ".svg" or content_of(place) in contents)
    return False


def write_files(
    options: Options,
    delivered: Configuration,
    worths: Sequence[Worth],
    last: Confirmation,
    confidence: float,
) -> tuple[Path, Path | None, Path]:
    """Write the switch file and the plot; and the session file, if the settings differ from
    onnxruntime's defaults. Return the paths of switch file, session file (or None) and plot.
    """
    output = options.destination
    registry = load_passes(options.custom_passes)
    by_name = {p.name: p for p in registry}
    switches = companion_file(output, "switches.json")
    plot = companion_file(output, "tune.svg")
    session = None
    if delivered.is_original:
        text = preset("all_off", registry)
    else:
        off, on = (
            [by_name[name] for name in sorted(names)] for names in (delivered.off, delivered.on)
        )
        text = changed_switches(options.fusion_switch_file, registry, off, on)
    # The plot contains the hashes of the old and the new switch file. So if the tuning is killed
    # after it has written only the plot, the old switch file is still recognized as a tuning's.
    contents = f"{hashlib.sha256(text.encode()).hexdigest()} {content_if_any(switches)}"
    picture = f"{worth_plot(options.source.name, worths, last, confidence)}{_MARK} {contents} -->\n"
    try:
        replace_text(plot, picture)
        replace_text(switches, text)
        if delivered.settings != Configuration().settings:
            session = session_file_of(output)
            replace_text(session, tuned_text(output, delivered.settings))
        elif is_session_file(session_file_of(output)):
            # an earlier tuning wrote this session file, for a model with the same bytes
            session_file_of(output).unlink()
    except OSError as error:
        raise cannot_be_written(error, output) from error
    return switches, session, plot
