"""Convert one model of many in a converting process, or keep its existing result, and record the
outcome.

The working directory is the records folder of the model: fusion_result.json and the log are written
there.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import asdict, replace
from pathlib import Path
from time import perf_counter
from typing import Any

from fusionc import api
from fusionc.attempt.conversion_plan import plan_of
from fusionc.attempt.running import running
from fusionc.batch.conversion_task import ConversionTask
from fusionc.batch.outcome import (
    CONVERTED,
    DIFFERENT,
    FAILED,
    KEPT,
    UNVERIFIED,
    Outcome,
)
from fusionc.batch.record import clear_records, ingredients_of, read_record, write_record
from fusionc.errors import FusioncError, UnverifiedError, VerificationError, said
from fusionc.options import options_of
from fusionc.report import Report
from fusionc.requested.kept_types import list_for_many_models
from fusionc.requested.target_opset import NewerAlready

_STATES_OF_ERRORS = {VerificationError: DIFFERENT, UnverifiedError: UNVERIFIED}


def check(arguments: Mapping[str, Any]) -> list[str]:
    """Check the options once for all models, and return the notices about them. Raises FusioncError
    if the options are wrong, so that this error is reported once and not for each model.
    """
    # model.onnx is only a name here; the file is neither read nor written
    options = options_of("model.onnx", **{**arguments, "log": "null"})
    with running(options) as plog:
        return list(plan_of(options, plog).notices)


def convert_one(task: ConversionTask) -> dict[str, Any]:
    """Convert the model, or keep its result. Return the outcome as plain data."""
    started = perf_counter()
    made_of = ingredients_of(task)
    known = read_record(task)
    if known is not None and known.made_of == made_of and known.is_whole(task.destination.parent):
        # If a cluster loses a worker together with its answers, it repeats tasks that were
        # finished.
        if known.run == task.run:
            return asdict(known.outcome)
        if task.keeps_results:
            kept = replace(
                known.outcome,
                model=str(task.source),
                output=str(task.destination),
                state=UNVERIFIED if known.outcome.state == UNVERIFIED else KEPT,
                seconds=perf_counter() - started,
            )
            return asdict(kept)
    try:
        clear_records(task)
        outcome = _outcome(task)
        outcome = replace(outcome, seconds=perf_counter() - started)
        write_record(task, outcome, made_of)
    except OSError as error:
        what = f"the records of the model cannot be written: {error.strerror}"
        failure = FusioncError(
            what, where=str(task.records), hint="check the permissions and the free space"
        )
        outcome = Outcome(task.name, str(task.source), FAILED, error=str(failure))
    return asdict(outcome)


def _outcome(task: ConversionTask) -> Outcome:
    os.chdir(task.records)
    os.environ["FUSIONC_PROCESS_LOG_PATH"] = str(task.records)
    try:
        arguments = task.own_arguments()
        for folder in (task.destination.parent, *_folders_of_pages(arguments)):
            folder.mkdir(parents=True, exist_ok=True)
        with list_for_many_models():
            report = _convert(task, arguments)
    except FusioncError as error:
        state = _STATES_OF_ERRORS.get(type(error), FAILED)
        log = error.log_file
        return Outcome(
            task.name,
            str(task.source),
            state,
            error=str(error),
            log=None if log is None else str(log),
        )
    except Exception as error:
        hint = "check the path, its permissions, and the free space there"
        if not isinstance(error, OSError):
            hint = (
                "this is a defect of fusionc: convert this model alone with --log debug, and "
                "report what it prints"
            )
        failure = FusioncError(said(error), where=str(task.source), hint=hint)
        return Outcome(task.name, str(task.source), FAILED, error=str(failure))
    return _success(task, report)


def _convert(task: ConversionTask, arguments: Mapping[str, Any]) -> Report:
    """Convert the model. If its opset is newer than --target_opset, it keeps this opset."""
    try:
        return api.convert(task.source, output=task.destination, **arguments)
    except NewerAlready as error:
        clear_records(task)
        report = api.convert(
            task.source, output=task.destination, **{**arguments, "target_opset": None}
        )
        wanted = arguments["target_opset"]
        report.notices = [
            f"{error.what}, so --target_opset {wanted} does not change it",
            *report.notices,
        ]
        return report


def _folders_of_pages(arguments: Mapping[str, Any]) -> list[Path]:
    return [] if arguments.get("report") is None else [arguments["report"].parent]


def _success(task: ConversionTask, report: Report) -> Outcome:
    return Outcome(
        task.name,
        str(task.source),
        UNVERIFIED if report.unverified else CONVERTED,
        output=str(task.destination),
        log=None if report.log_file is None else str(report.log_file),
        nodes=(report.nodes_before, report.nodes_after),
        bytes=(report.bytes_before, report.bytes_after),
        effected=report.effected,
        verification=report.verification,
        notices=tuple(report.notices),
    )
