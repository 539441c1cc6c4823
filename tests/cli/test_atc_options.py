"""ATC's options that fusionc has not: refused or without effect, never both, never unknown."""

from __future__ import annotations

from typing import Any

import click
import pytest

from fusionc.cli.atc_options import IGNORED, REFUSED
from fusionc.cli.convert import command

WITHOUT_EFFECT = [name for names in IGNORED.values() for name in names.split()]


def test_an_option_has_one_meaning() -> None:
    shown = {p.name for p in command.params if isinstance(p, click.Option) and not p.hidden}
    assert len(WITHOUT_EFFECT) == len(set(WITHOUT_EFFECT))
    assert not set(WITHOUT_EFFECT) & REFUSED.keys()
    assert not shown & {*WITHOUT_EFFECT, *REFUSED}


@pytest.mark.parametrize("name", REFUSED)
def test_what_would_change_the_result_is_refused(run: Any, fake_convert: Any, name: str) -> None:
    result = run("convert", "--model=in.onnx", f"--{name}=force_fp16")
    assert (result.exit_code, fake_convert.calls) == (2, [])
    what, where, hint = result.stderr.splitlines()
    assert what.startswith(f"E10001: --{name} asks for ") and where == f"  where: --{name}=force_fp16"
    assert hint == f"  to do: {REFUSED[name].instead}"


@pytest.mark.parametrize(
    "word",
    [
        "--precision_mode=must_keep_origin_dtype", "--precision_mode_v2=origin", "--input_format=NCHW",
        "-input-format=ND", "--enable_compress_weight=false", "--is_input_adjust_hw_layout=false,false",
    ],
)  # fmt: skip
def test_what_is_so_anyway_is_not_refused(run: Any, fake_convert: Any, word: str) -> None:
    assert run("convert", "--model=in.onnx", word).exit_code == 0
    assert "accepted, no effect: --" in fake_convert.report.notices[-1]


@pytest.mark.parametrize(
    "word", ["--is_input_adjust_hw_layout=false,true", "--input_format=NHWC", "--precision_mode=allow_mix_precision"]
)
def test_one_value_that_asks_for_something_is_enough(run: Any, fake_convert: Any, word: str) -> None:
    assert run("convert", "--model=in.onnx", word).exit_code == 2 and fake_convert.calls == []


@pytest.mark.parametrize("name", WITHOUT_EFFECT)
def test_what_does_not_change_the_result_is_told(run: Any, fake_convert: Any, name: str) -> None:
    assert run("convert", "--model=in.onnx", f"--{name}=1").exit_code == 0
    assert fake_convert.report.notices[-1] == f"accepted, no effect: --{name}"
