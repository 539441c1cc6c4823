"""The settings that a model was tuned to, where it is used on a machine like the one on which that
was measured.
"""

from __future__ import annotations

from pathlib import Path

from fusionc.ready_form.machine import this_machine
from fusionc.ready_form.session_file import (
    SessionFile,
    TunedSettings,
    identity_of,
    read_session_file,
    session_file_of,
)
from fusionc.runtime.cores import cores
from fusionc.runtime.session_settings import SessionSettings


class NotTuned(Exception):
    """Why settings do not hold, as the end of a sentence about them."""


def tuned_settings(model: Path) -> SessionSettings:
    """What the session file of a model has of them; onnxruntime's defaults where it has none.

    Raises NotTuned where they are those of another model or machine. A file that cannot be read has
    none: whoever looks for the ready form there says so.
    """
    try:
        known = read_session_file(session_file_of(model))
    except (OSError, ValueError):
        return SessionSettings()
    if known.tuned is None:
        return SessionSettings()
    if known.model.name != model.name or not known.model.fits(model.parent):
        raise NotTuned("are of another model than this one")
    if difference := known.tuned.machine.difference(this_machine()):
        raise NotTuned(f"were {difference}")
    if known.tuned.processors != cores():
        raise NotTuned(
            f"were measured on {known.tuned.processors} processors, and these are {cores()}"
        )
    return known.tuned.settings


def tuned_text(model: Path, settings: SessionSettings) -> str:
    """The text of the session file of a model that lies in its place, with these settings, for this
    machine.
    """
    tuned = TunedSettings(settings, this_machine(), cores())
    return SessionFile(identity_of(model, model.name), (), None, tuned).text()
