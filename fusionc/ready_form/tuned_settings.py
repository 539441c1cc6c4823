"""The tuned settings of a model. They are valid on machines like the one that measured them."""

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
    """Raised if settings are not valid. The text is the end of a sentence with the settings as its
    subject.
    """


def tuned_settings(model: Path) -> SessionSettings:
    """The settings in the session file of a model; onnxruntime's defaults if there are none.

    A session file that cannot be read counts as a file without settings, because `ready_model`
    raises the error. Raises NotTuned if the settings belong to another model or machine.
    """
    try:
        content = read_session_file(session_file_of(model))
    except (OSError, ValueError):
        return SessionSettings()
    tuned = content.tuned
    if tuned is None:
        return SessionSettings()
    if not content.is_about(model):
        raise NotTuned("belong to another model")
    if difference := tuned.machine.difference(this_machine()):
        raise NotTuned(f"were {difference}")
    if tuned.processors != cores():
        raise NotTuned(f"were measured on {tuned.processors} processors, and this has {cores()}")
    return tuned.settings


def tuned_text(model: Path, settings: SessionSettings) -> str:
    """The text of the session file of a published model with these settings, for this machine."""
    tuned = TunedSettings(settings, this_machine(), cores())
    return SessionFile(identity_of(model, model.name), (), None, tuned).text()
