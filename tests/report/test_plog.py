"""The log: where it is, what a line looks like, how it rotates, and that it never fails a run."""

from __future__ import annotations

import os
import re
import threading
from dataclasses import replace
from datetime import datetime, timedelta
from pathlib import Path

import pytest

from fusionc.errors import UsageError
from fusionc.report import Plog, plog
from fusionc.rewrite.log import PatternCount

COUNTS = [
    PatternCount(
        0, "GraphFusion", "Late", "late", effected=2, refused={"shared\n  value": 1, "dynamic": 3}
    ),
    PatternCount(0, "GraphFusion", "Never", "never"),
    PatternCount(12, "UBFusion", "Early", "early", refused={"no kernel": 1}),
]
MESSAGES = [
    (
        "RunOnePattern:GraphId[0], GraphFusionPass[Late]: pattern=late, matched_times=6, "
        "effected_times=2."
    ),
    (
        "RunOnePattern:GraphId[12], UBFusionPass[Early]: pattern=early, matched_times=1, "
        "effected_times=0."
    ),
]
LINE = re.compile(
    r"\[(?P<level>[A-Z]+)\] FUSIONC\((?P<pid>\d+),fusionc\):"
    r"\d{4}-\d\d-\d\d-\d\d:\d\d:\d\d\.\d{3}\.\d{3} \[test_plog\.py:\d+\](?P<tid>\d+) (?P<message>.*)"
)


def messages(text: str, level: str = "INFO") -> list[str]:
    found = []
    for line in text.splitlines():
        match = LINE.fullmatch(line)
        assert match, line
        assert (match["pid"], match["tid"]) == (str(os.getpid()), str(threading.get_native_id()))
        if match["level"] == level:
            found.append(match["message"])
    return found


def files(folder: Path) -> list[Path]:
    return sorted((folder / "debug" / "plog").glob("*"))


def test_patterns_that_matched_are_logged_in_order(tmp_path: Path) -> None:
    with Plog() as log:
        lines = log.patterns(COUNTS)
    assert log.file is not None and log.notices == []
    assert log.file.parent == tmp_path / "home/.local/state/fusionc/log/debug/plog"
    assert re.fullmatch(rf"plog-{os.getpid()}_\d{{17}}\.log", log.file.name)
    assert messages(log.file.read_text()) == MESSAGES
    assert lines == log.file.read_text().splitlines()


def test_patterns_are_logged_in_the_order_in_which_they_ran() -> None:
    early = replace(COUNTS[2], at=1e9)
    late = replace(COUNTS[0], at=1e9 + 0.25)
    with Plog() as log:
        lines = log.patterns([late, COUNTS[1], early])
    assert [line.partition("Pass[")[2].partition("]")[0] for line in lines] == ["Early", "Late"]
    stamps = [datetime.strptime(line.split()[1][-27:-4], "%Y-%m-%d-%H:%M:%S.%f") for line in lines]
    assert [stamp.timestamp() for stamp in stamps] == [1e9, 1e9 + 0.25]


def test_debug_tells_why_matches_were_refused() -> None:
    with Plog("debug") as log:
        log.patterns(COUNTS)
    assert log.file is not None
    text = log.file.read_text()
    assert messages(text, "DEBUG") == [
        (
            "RunOnePattern:GraphId[0], GraphFusionPass[Late]: pattern=late, refused_times=1, "
            "reason: shared value."
        ),
        (
            "RunOnePattern:GraphId[0], GraphFusionPass[Late]: pattern=late, refused_times=3, "
            "reason: dynamic."
        ),
        (
            "RunOnePattern:GraphId[12], UBFusionPass[Early]: pattern=early, refused_times=1, "
            "reason: no kernel."
        ),
    ]
    effected = [
        line for line in text.splitlines() if "GraphId" in line and "effected_times=" in line
    ]
    assert [message for line in effected for message in messages(line)] == MESSAGES


@pytest.mark.parametrize(
    ("option", "variables", "expected"),
    [
        (None, {}, "info"),
        ("error", {"FUSIONC_GLOBAL_LOG_LEVEL": "0", "ASCEND_GLOBAL_LOG_LEVEL": "1"}, "error"),
        (None, {"FUSIONC_GLOBAL_LOG_LEVEL": "0", "ASCEND_GLOBAL_LOG_LEVEL": "3"}, "debug"),
        (None, {"ASCEND_GLOBAL_LOG_LEVEL": "3"}, "error"),
        (None, {"FUSIONC_GLOBAL_LOG_LEVEL": "", "ASCEND_GLOBAL_LOG_LEVEL": "4"}, "null"),
        (None, {"FUSIONC_GLOBAL_LOG_LEVEL": "Warning"}, "warning"),
        (None, {"FUSIONC_GLOBAL_LOG_LEVEL": "5"}, "info"),
        (None, {"FUSIONC_GLOBAL_LOG_LEVEL": "loud"}, "info"),
    ],
)
def test_level(
    monkeypatch: pytest.MonkeyPatch, option: str | None, variables: dict[str, str], expected: str
) -> None:
    for name, value in variables.items():
        monkeypatch.setenv(name, value)
    assert Plog(option).level == expected


@pytest.mark.parametrize(
    ("level", "shown"),
    [
        ("debug", ["d", "i", "w", "e"]),
        ("info", ["i", "w", "e"]),
        ("warning", ["w", "e"]),
        ("error", ["e"]),
        ("null", []),
    ],
)
def test_a_level_shows_itself_and_what_is_worse(level: str, shown: list[str]) -> None:
    with Plog(level) as log:
        log.debug("Run", "d")
        log.info("Run", "i")
        log.warning("Run", "w")
        log.error("Run", "e")
    text = log.file.read_text() if log.file is not None else ""
    assert [line.rpartition(" Run:")[2] for line in text.splitlines()] == shown
    assert [line.partition("]")[0][1] for line in text.splitlines()] == [
        name.upper() for name in shown
    ]
    assert (log.file is None) == (not shown)


def test_an_unknown_level_is_refused() -> None:
    with pytest.raises(UsageError) as caught:
        Plog("loud")
    assert caught.value.code == "E10010" and "debug, info" in caught.value.hint


@pytest.mark.parametrize(
    ("variables", "expected"),
    [
        (
            {
                "FUSIONC_PROCESS_LOG_PATH": "a",
                "ASCEND_PROCESS_LOG_PATH": "b",
                "FUSIONC_WORK_PATH": "c",
            },
            "a",
        ),
        ({"ASCEND_PROCESS_LOG_PATH": "b", "FUSIONC_WORK_PATH": "c", "ASCEND_WORK_PATH": "d"}, "b"),
        ({"FUSIONC_WORK_PATH": "c", "ASCEND_WORK_PATH": "d"}, "c/log"),
        ({"ASCEND_WORK_PATH": "d"}, "d/log"),
        ({"XDG_STATE_HOME": "e"}, "e/fusionc/log"),
        ({}, "home/.local/state/fusionc/log"),
    ],
)
def test_folder(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, variables: dict[str, str], expected: str
) -> None:
    for name, value in variables.items():
        monkeypatch.setenv(name, str(tmp_path / value))
    with Plog() as log:
        log.info("Run", "here")
    assert files(tmp_path / expected) == [log.file]


@pytest.mark.parametrize(
    ("variables", "to_stdout"),
    [
        ({"FUSIONC_LOG_PRINT_TO_STDOUT": "1"}, True),
        ({"ASCEND_SLOG_PRINT_TO_STDOUT": "1"}, True),
        ({"ASCEND_LOG_PRINT_TO_STDOUT": "0", "ASCEND_SLOG_PRINT_TO_STDOUT": "1"}, False),
        ({"FUSIONC_SLOG_PRINT_TO_STDOUT": "0", "ASCEND_SLOG_PRINT_TO_STDOUT": "1"}, False),
    ],
)
def test_stdout_instead_of_a_file(
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    variables: dict[str, str],
    to_stdout: bool,
) -> None:
    for name, value in variables.items():
        monkeypatch.setenv(name, value)
    with Plog() as log:
        left_to_print = log.patterns(COUNTS)
    assert messages(capsys.readouterr().out) == (MESSAGES if to_stdout else [])
    assert (log.file is None, len(left_to_print)) == ((True, 0) if to_stdout else (False, 2))


def test_lines_that_the_level_keeps_from_stdout_are_left_to_print(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("FUSIONC_LOG_PRINT_TO_STDOUT", "1")
    monkeypatch.setenv("ASCEND_GLOBAL_LOG_LEVEL", "3")
    with Plog() as log:
        left_to_print = log.patterns(COUNTS)
    assert capsys.readouterr().out == ""
    assert [message for line in left_to_print for message in messages(line)] == MESSAGES


@pytest.mark.parametrize(
    ("option", "lines"), [("debug", 2), ("info", 2), ("warning", 0), ("error", 0), ("null", 0)]
)
def test_a_level_that_was_asked_for_keeps_the_lines_back(option: str, lines: int) -> None:
    with Plog(option) as log:
        assert len(log.patterns(COUNTS)) == lines


def test_a_full_file_is_followed_by_the_next_and_the_newest_are_kept(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(plog, "FILE_BYTES", 400)
    monkeypatch.setenv("ASCEND_HOST_LOG_FILE_NUM", "3")
    monkeypatch.setenv("FUSIONC_PROCESS_LOG_PATH", str(tmp_path))
    folder = tmp_path / "debug" / "plog"
    folder.mkdir(parents=True)
    other_process = folder / "plog-0_20000101000000000.log"
    other_process.touch()
    with Plog() as log:
        for number in range(20):
            log.info("Run", f"{number:0150}")
    kept = files(tmp_path)
    assert kept[0] == other_process and kept[-1] == log.file
    numbers = [int(message[4:]) for file in kept[1:] for message in messages(file.read_text())]
    assert numbers == list(range(20))[-len(numbers) :]
    assert len(kept) == 1 + 3
    assert all(file.stat().st_size <= 400 for file in kept)


def test_the_newest_hundred_are_kept_where_nobody_chose_the_folder(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path))
    folder = tmp_path / "fusionc/log/debug/plog"
    folder.mkdir(parents=True)
    for number in range(120):  # the process ids sort the other way round than the times
        folder.joinpath(f"plog-{900 - number}_20000101000000{number:03}.log").touch()
    folder.joinpath("notes.txt").touch()
    with Plog() as log:
        log.info("Run", "x")
    assert log.notices == []
    kept = {file.name for file in folder.iterdir()}
    assert len(kept) == 101 and "notes.txt" in kept  # 99 old ones and the new one
    assert {name.partition("_")[2] for name in kept} >= {
        f"20000101000000{number:03}.log" for number in range(21, 120)
    }
    chosen = tmp_path / "chosen/debug/plog"
    chosen.mkdir(parents=True)
    for number in range(101):
        chosen.joinpath(f"plog-0_20000101000000{number:03}.log").touch()
    monkeypatch.setenv("FUSIONC_PROCESS_LOG_PATH", str(tmp_path / "chosen"))
    with Plog() as log:
        log.info("Run", "x")
    assert len(list(chosen.iterdir())) == 102


def test_a_notice_says_for_one_release_that_the_log_has_moved(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    old = tmp_path / "home/fusionc/log/debug/plog"
    old.mkdir(parents=True)
    monkeypatch.setattr(plog, "FILE_BYTES", 300)
    with Plog() as log:
        for number in range(5):
            log.info("Run", f"{number:0150}")
    assert len(log.notices) == 1 and f"is no longer in {old}" in log.notices[0]
    with Plog() as log:
        log.info("Run", "x")
    assert log.file is not None and log.notices == []
    monkeypatch.setenv("FUSIONC_PROCESS_LOG_PATH", str(tmp_path))
    with Plog() as log:
        log.info("Run", "x")
    assert log.notices == []


def test_ten_files_of_20_mb_are_the_default(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    assert plog.FILE_BYTES == 20 * 1024 * 1024
    monkeypatch.setenv("FUSIONC_PROCESS_LOG_PATH", str(tmp_path))
    monkeypatch.setenv("FUSIONC_HOST_LOG_FILE_NUM", "none")
    for _ in range(12):
        with Plog() as log:
            log.info("Run", "x")
    assert len(files(tmp_path)) == 10


@pytest.mark.parametrize(
    ("name", "value", "right"),
    [
        ("FUSIONC_GLOBAL_LOG_LEVEL", "loud", "0 to 4, or one of debug, info, warning, error, null"),
        ("ASCEND_GLOBAL_LOG_LEVEL", "5", "0 to 4, or one of debug, info, warning, error, null"),
        ("FUSIONC_HOST_LOG_FILE_NUM", "0", "a number from 1 to 999999"),
        ("ASCEND_HOST_LOG_FILE_NUM", "none", "a number from 1 to 999999"),
        ("FUSIONC_LOG_PRINT_TO_STDOUT", "yes", "0 or 1"),
        ("ASCEND_SLOG_PRINT_TO_STDOUT", "2", "0 or 1"),
    ],
)
def test_a_value_that_means_nothing_is_a_notice(
    monkeypatch: pytest.MonkeyPatch, name: str, value: str, right: str
) -> None:
    monkeypatch.setenv(name, value)
    with Plog() as log:
        log.info("Run", "x")
    assert log.notices == [f'{name} is "{value}", so its default is used: give {right}']
    assert (
        log.level == "info" and log.file is not None and messages(log.file.read_text()) == ["Run:x"]
    )


def test_a_variable_that_an_option_beats_is_not_looked_at(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("FUSIONC_GLOBAL_LOG_LEVEL", "loud")
    monkeypatch.setenv("FUSIONC_LOG_PRINT_TO_STDOUT", "0")
    monkeypatch.setenv("FUSIONC_SLOG_PRINT_TO_STDOUT", "yes")
    assert Plog("error").notices == []


def test_two_files_of_one_millisecond_have_two_names(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("FUSIONC_PROCESS_LOG_PATH", str(tmp_path))
    now = datetime(2026, 1, 31, 20, 10, 58, 288365)
    # a line and a name each; the last again
    moments = iter([now, now, now, now, now + timedelta(milliseconds=1)])

    class Clock:
        @staticmethod
        def now() -> datetime:
            return next(moments)

    monkeypatch.setattr(plog, "datetime", Clock)
    for _ in range(2):
        with Plog() as log:
            log.info("Run", "x")
            assert log.file is not None and ":2026-01-31-20:10:58.288.365 [" in log.file.read_text()
    assert [file.name.partition("_")[2] for file in files(tmp_path)] == [
        "20260131201058288.log",
        "20260131201058289.log",
    ]


def test_a_folder_that_cannot_be_written_is_one_notice(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    (tmp_path / "file").touch()
    monkeypatch.setenv("FUSIONC_PROCESS_LOG_PATH", str(tmp_path / "file"))
    with Plog() as log:
        lines = log.patterns(COUNTS)
        log.error("Run", "again")
    assert len(lines) == 2 and log.file is None
    (notice,) = log.notices
    assert str(tmp_path / "file") in notice and "FUSIONC_PROCESS_LOG_PATH" in notice


def test_any_character_can_be_logged() -> None:
    with Plog() as log:
        log.info("Run", "ü\udcff")
    assert log.file is not None and log.file.read_text(encoding="utf-8").endswith("Run:ü\\udcff\n")
