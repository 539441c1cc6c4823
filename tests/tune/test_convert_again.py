"""The command that a tuning gives asks for the same conversion as the tuning did, with what was
found.
"""

from __future__ import annotations

from dataclasses import fields, replace
from pathlib import Path

import pytest
from click.testing import CliRunner

from fusionc.cli import main
from fusionc.conversion import conversion_story
from fusionc.errors import FusioncError
from fusionc.graph_kernel.flags.read_flags import read_flags
from fusionc.options import Options
from fusionc.passes import PASSES
from fusionc.switches import decide
from fusionc.tune.configuration import Configuration
from fusionc.tune.convert_again import command_to_convert

SWITCHES = Path("out.switches.json")
ASKED = {
    "nothing": [],
    "sizes": [
        "--input_shape",
        "x:1,3,-1,1~8;y:",
        "--free_dim",
        "z:0=batch,2;w:1",
        "--verify_shape",
        "x:1,3,2,8",
    ],
    "outputs": [
        "--out_nodes",
        "conv1:0;relu2:1",
        "--output_type",
        "FP16",
        "--external_weight",
        "2",
    ],
    "target": ["--target", "onnx", "--target_opset", "20"],
    "levels": [
        "--oo_level",
        "O1",
        "--oo_constant_folding=false",
        "--oo_dead_code_elimination",
        "false",
    ],
    "own passes": [
        "--custom_passes",
        "mine.py",
        "--custom_passes",
        "yours.py",
        "--pattern_fusion_pass",
        "false",
    ],
    "libraries": [
        "--custom_op_library",
        "one.so",
        "--custom_op_library",
        "two.so",
        "--trust_kernels",
    ],
    "verification": [
        "--inputs",
        "samples",
        "--runtime_level",
        "basic",
        "--runtime_level",
        "disabled",
    ],
    "wrong results": [
        "--no-verify",
        "--on_mismatch",
        "rollback",
        "--check_rewrites",
        "--timeout",
        "0.5",
        "--verify_budget",
        "4",
    ],
    "switches": ["--optimization_switch", "IdentityPass:on;EinsumPass:off"],
    "precision": [
        "--require_verification",
        "--precision_mode_v2",
        "mixed_bfloat16",
        "--precision_error",
        "0.02",
        "--keep_dtype",
        "kept.txt",
    ],
    "older precision": [
        *("--precision_mode", "force_fp16", "--customize_dtypes", "types.cfg"),
        *("--modify_mixlist", "lists.json"),
    ],
    "images": ["--insert_op_conf", "aipp.cfg", "--input_format", "NHWC"],
    "kept nodes": ["--keep_nodes", "conv1;encoder/"],
    "batches": ["--input_shape", "x:-1,3", "--dynamic_batch_size", "1,2"],
    "image sizes": ["--input_shape", "x:1,3,-1,-1", "--dynamic_image_size", "32,32;64,64"],
    "other sizes": ["--input_shape", "x:-1,-1", "--dynamic_dims", "1,8;2,16"],
    "flags": ["--graph_kernel_flags=--opt_level=2 --disable_pass=IdentityPass"],
}
# What is not about the model or whether it is right, and what a tuning does itself.
OWN = {
    *("source", "destination", "fusion_switch_file", "enable_graph_kernel"),
    *("log", "report", "dump_graph", "export_compile_stat", "ready", "progress"),
}


@pytest.fixture
def options_of(monkeypatch: pytest.MonkeyPatch, tmp_path: Path):
    """What the command line makes of the words of a conversion."""
    monkeypatch.chdir(tmp_path)
    for name in (
        "in.onnx",
        "mine.py",
        "yours.py",
        "one.so",
        "two.so",
        "samples",
        "kept.txt",
        "aipp.cfg",
        SWITCHES,
        "first.json",
    ):
        Path(name).write_text("")

    found: list[Options] = []

    def stop(options: Options) -> None:
        found.append(replace(options, progress=print))
        raise FusioncError("that is enough")

    def asked(words: list[str]) -> Options:
        ran = CliRunner().invoke(main, words)
        assert "that is enough" in ran.output, ran.output
        return found[-1]

    monkeypatch.setattr(conversion_story, "convert", stop)
    return asked


@pytest.mark.parametrize("kernels", [True, False])
@pytest.mark.parametrize("words", ASKED.values(), ids=ASKED)
def test_the_command_asks_for_the_same_model(options_of, words: list[str], kernels: bool) -> None:
    first = options_of(
        ["convert", "--model", "in.onnx", "--fusion_switch_file", "first.json", *words]
    )
    again = options_of(command_to_convert(first, Configuration(kernels=kernels), SWITCHES)[1:])
    flags = Configuration(kernels=kernels).flags(first.graph_kernel_flags)
    expected = {"fusion_switch_file": SWITCHES, "graph_kernel_flags": flags}
    expected["destination"] = Path("in_fusionc.again.onnx")
    assert again == replace(first, **expected, enable_graph_kernel=again.enable_graph_kernel)
    assert bool(again.enable_graph_kernel) == kernels
    assert again.enable_graph_kernel is not None or not again.graph_kernel_flags


def test_no_option_is_forgotten(options_of) -> None:
    """Each of them differs from its default in one of the cases."""
    plain = options_of(["convert", "--model", "in.onnx"])
    asked = [options_of(["convert", "--model", "in.onnx", *words]) for words in ASKED.values()]
    told = {
        f.name
        for f in fields(Options)
        for one in asked
        if getattr(one, f.name) != getattr(plain, f.name)
    }
    assert told == {f.name for f in fields(Options)} - OWN


def test_switches_of_ones_own_stay_beside_what_was_found(options_of) -> None:
    first = options_of(
        ["convert", "--model", "in.onnx", "--optimization_switch", "IdentityPass:on;EinsumPass:off"]
    )
    found = Configuration(off=frozenset({"GeluFusionPass"}))
    again = options_of(command_to_convert(first, found, SWITCHES)[1:])
    assert again.optimization_switch == "IdentityPass:on;EinsumPass:off;GeluFusionPass:off"
    enabled = decide(PASSES, optimization_switch=again.optimization_switch).enabled
    assert not enabled & {"GeluFusionPass", "EinsumPass"}


def test_areas_that_cost_are_left_out(options_of) -> None:
    first = options_of(["convert", "--model", "in.onnx", "--graph_kernel_flags=--opt_level=2"])
    found = Configuration(kernels=True, areas_off=frozenset({"area"}))
    again = options_of(command_to_convert(first, found, SWITCHES)[1:])
    assert again.graph_kernel_flags == "--opt_level=2 --disable_areas=area"


def test_areas_of_the_user_and_those_that_cost_are_left_out_together(options_of) -> None:
    given = "--disable_areas=mine --dump_as_text --opt_level=2"
    first = options_of(["convert", "--model", "in.onnx", f"--graph_kernel_flags={given}"])
    found = Configuration(kernels=True, areas_off=frozenset({"area"}))
    again = options_of(command_to_convert(first, found, SWITCHES)[1:])
    assert again.graph_kernel_flags == "--dump_as_text --opt_level=2 --disable_areas=area,mine"
    assert read_flags(again.graph_kernel_flags, is_enabled=True).flags.disable_areas == (
        "area",
        "mine",
    )


def test_without_areas_no_level_asks_for_them(options_of) -> None:
    first = options_of(["convert", "--model", "in.onnx", "--graph_kernel_flags=--opt_level=2"])
    again = options_of(command_to_convert(first, Configuration(), SWITCHES)[1:])
    assert not read_flags(
        again.graph_kernel_flags, is_enabled=again.enable_graph_kernel
    ).flags.is_on


def test_of_the_original_no_pass_is_asked_for(options_of) -> None:
    words = [
        "--optimization_switch",
        "IdentityPass:on",
        "--custom_passes",
        "mine.py",
        "--trust_kernels",
        "--input_shape",
    ]
    first = options_of(
        [
            "convert",
            "--model",
            "in.onnx",
            "--graph_kernel_flags=--enable_pass=IdentityPass",
            *words,
            "x:1",
        ]
    )
    again = command_to_convert(first, Configuration(is_original=True), SWITCHES)
    assert again[8:] == ["--input_shape", "x:1", "--enable_graph_kernel=false", "--trust_kernels"]
