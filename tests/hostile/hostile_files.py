"""Places that cannot be read or written."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

from hostile_case import Case, options, valid


def _with(make: Callable[[Path], object]) -> Callable[[Path], object]:
    """A valid model, and something next to it."""

    def both(folder: Path) -> None:
        valid(folder)
        make(folder)

    return both


def _to(output: str, *more: str) -> tuple[str, ...]:
    return ("convert", "--model", "m.onnx", "--output", output, *more)


def _loop(name: str) -> Callable[[Path], object]:
    return _with(lambda folder: (folder / name).symlink_to(name))


CASES = [
    Case("output: a loop of links", _loop("o.onnx"), ("E10001", "leads back to itself"), 2),
    Case(
        "output: in a loop of links",
        _loop("o"),
        ("E10001", "o/o.onnx", "leads back to itself"),
        2,
        _to("o/o.onnx"),
    ),
    Case(
        "output: a folder",
        _with(lambda f: (f / "o.onnx").mkdir()),
        ("E10001: the output is a folder",),
        2,
    ),
    Case("output: a missing folder", valid, ("E13004", "mkdir -p no)"), 2, _to("no/o.onnx")),
    Case("output: below a file", valid, ("E13004", "m.onnx"), 1, _to("m.onnx/o.onnx")),
    Case("output: a name too long", valid, ("E10001", "too long"), 2, _to("o" * 300)),
    Case("output: not UTF-8", valid, ("E10001", "not UTF-8"), 2, _to(os.fsdecode(b"o\xff.onnx"))),
    Case("output: /proc", valid, ("E13004",), 1, _to("/proc/o.onnx")),
    Case(
        "model: a loop of links",
        lambda f: (f / "m.onnx").symlink_to("m.onnx"),
        ("E10001", "m.onnx"),
        2,
    ),
    Case(
        "model: a link to nothing",
        lambda f: (f / "m.onnx").symlink_to("n.onnx"),
        ("E10410", "m.onnx"),
        2,
    ),
    Case("model: a pipe", lambda f: os.mkfifo(f / "m.onnx"), ("E10410", "m.onnx"), 2),
    Case(
        "model: a device",
        valid,
        ("E10410",),
        2,
        ("convert", "--model", "/dev/zero", "--output", "o.onnx"),
    ),
    Case(
        "model: not UTF-8",
        lambda f: (valid(f), (f / "m.onnx").rename(f / os.fsdecode(b"m\xff.onnx"))),
        ("not UTF-8",),
        2,
        ("convert", "--model", os.fsdecode(b"m\xff.onnx"), "--output", "o.onnx"),
    ),
    Case(
        "json: a missing folder",
        valid,
        ("E13004",),
        2,
        ("convert", "--model", "m.onnx", "--mode", "1", "--json", "no/j.json"),
    ),
    Case(
        "dump: a file",
        _with(lambda f: (f / "d").write_text("")),
        ("E13004", "d"),
        1,
        options("--dump_graph", "d"),
    ),
    Case("dump: below a file", valid, ("E13004",), 1, options("--dump_graph", "m.onnx/d")),
    Case(
        "log: a file",
        valid,
        ("no log is written",),
        0,
        environment={"FUSIONC_PROCESS_LOG_PATH": "m.onnx"},
    ),
    Case(
        "log: no home",
        valid,
        (),
        0,
        environment={"FUSIONC_PROCESS_LOG_PATH": "", "HOME": "/nonexistent"},
    ),
    Case(
        "log: a level that there is not",
        valid,
        ("notice",),
        0,
        environment={"FUSIONC_GLOBAL_LOG_LEVEL": "loud"},
    ),
    Case(
        "result: a folder in its place",
        _with(lambda f: (f / "fusion_result.json").mkdir()),
        ("notice",),
        0,
    ),
    Case("work path: a file", valid, ("notice",), 0, environment={"FUSIONC_WORK_PATH": "m.onnx"}),
    Case(
        "library: a folder in its place",
        _with(lambda f: (f / "o.kernels.so").mkdir()),
        ("E10001", "o.kernels.so"),
        2,
        options("--enable_graph_kernel"),
    ),
    Case("data: a folder in its place", _with(lambda f: (f / "o.onnx.data").mkdir()), (), 0),
]
