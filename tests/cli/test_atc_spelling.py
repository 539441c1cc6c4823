"""Options as ATC's users write them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from fusionc.cli import main
from fusionc.errors import UsageError


@pytest.mark.parametrize(
    "words",
    [
        ["--model", "in.onnx", "--fusion_switch_file", "a-b/-c_d.cfg"],
        ["--model=in.onnx", "--fusion-switch-file=a-b/-c_d.cfg"],
        ["-model", "in.onnx", "-fusion_switch_file", "a-b/-c_d.cfg"],
        ["-model=in.onnx", "-fusion-switch-file=a-b/-c_d.cfg"],
        ["--fusion-switch_file", "a-b/-c_d.cfg", "-model", "in.onnx"],
    ],
)
def test_names_are_respelled_and_values_are_not(
    run: Any, fake_convert: Any, words: list[str]
) -> None:
    assert run("convert", *words).exit_code == 0
    (call,) = fake_convert.calls
    assert (call["model"], call["fusion_switch_file"]) == (Path("in.onnx"), Path("a-b/-c_d.cfg"))


def test_a_value_may_begin_with_a_hyphen(run: Any, fake_convert: Any) -> None:
    result = run(
        "convert",
        "-model",
        "-in-put.onnx",
        "--output",
        "--no-verify",
        "-optimization_switch",
        "-log-:on",
    )
    assert result.exit_code == 0, result.output
    (call,) = fake_convert.calls
    assert call["model"] == Path("-in-put.onnx") and call["output"] == Path("--no-verify")
    assert call["verify"] is True and call["optimization_switch"] == "-log-:on"


@pytest.mark.parametrize("flag", ["--no-verify", "--no_verify", "-no-verify", "-no_verify"])
def test_a_flag_takes_no_value(run: Any, fake_convert: Any, flag: str) -> None:
    assert run("convert", flag, "-model", "in.onnx").exit_code == 0
    assert fake_convert.calls[0]["verify"] is False


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        ("0", 0),
        ("f", 0),
        ("false", 0),
        ("n", 0),
        ("no", 0),
        ("1", 1),
        ("t", 1),
        ("TRUE", 1),
        ("y", 1),
        ("Yes", 1),
    ],
)
def test_booleans(run: Any, fake_convert: Any, value: str, expected: int) -> None:
    assert run("convert", "--model=a.onnx", f"--external_weight={value}").exit_code == 0
    assert fake_convert.calls[0]["external_weight"] == expected


def test_what_is_no_boolean(run: Any, fake_convert: Any) -> None:
    result = run("convert", "--model=a.onnx", "--external_weight=3")
    assert result.exit_code == 2 and "'3' is not 0, 1 or 2" in result.stderr


def test_external_weight_has_a_third_value_in_atc(run: Any, fake_convert: Any) -> None:
    """1 is a file for each weight there, 2 one for all, which is what 1 is here."""
    assert run("convert", "--model=a.onnx", "--external_weight=2").exit_code == 0
    assert fake_convert.calls[0]["external_weight"] == 1


def test_other_options_of_atc_are_accepted_with_one_notice(run: Any, fake_convert: Any) -> None:
    result = run(
        "convert",
        "--soc_version=Ascend310P3",
        "-enable-small-channel",
        "1",
        "--model",
        "in.onnx",
        "--debug_dir",
        "-a:0",
    )
    assert result.exit_code == 0
    assert fake_convert.report.notices == [
        "from the conversion",
        "--soc_version, --enable_small_channel, --debug_dir are accepted, but have no effect",
    ]
    assert result.stdout.count("no effect") == 1


@pytest.mark.parametrize("word", ["--fusion_swich_file", "-fusion-swich-file=x"])
def test_an_unknown_option_names_the_nearest(run: Any, fake_convert: Any, word: str) -> None:
    result = run("convert", "--model", "in.onnx", word)
    assert result.exit_code == 2 and fake_convert.calls == []
    assert "--fusion_switch_file" in result.stderr and "swich" in result.stderr


def test_words_after_two_hyphens_are_not_options(run: Any, fake_convert: Any) -> None:
    result = run("convert", "--model", "in.onnx", "--", "-output")
    assert result.exit_code == 2 and "unexpected extra argument (-output)" in result.stderr


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        (["--enable_graph_kernel"], True),
        (["--enable_graph_kernel", "--no-verify"], True),
        (["--enable_graph_kernel=True"], True),
        (["-enable-graph-kernel", "True"], True),
        (["--enable_graph_kernel=1"], True),
        (["--enable_graph_kernel=False"], False),
        (["--enable_graph_kernel", "false", "--no-verify"], False),
        (["--jit_level=O1"], True),
        (["--jit_level=O0"], None),
        (["--jit_level=O1", "--enable_graph_kernel=False"], False),
        ([], None),
    ],
)
def test_graph_kernels_are_switched_as_in_mindspore(
    run: Any, fake_convert: Any, words: list[str], expected: bool | None
) -> None:
    result = run("convert", "--model=in.onnx", *words)
    assert result.exit_code == 0, result.output
    (call,) = fake_convert.calls
    assert call["enable_graph_kernel"] is expected and call["verify"] is (
        "--no-verify" not in words
    )


@pytest.mark.parametrize(
    ("value", "expected"), [("True", True), ("False", False), ("true", True), ("false", False)]
)
def test_pattern_fusion_is_switched_as_in_torchair(
    run: Any, fake_convert: Any, value: str, expected: bool
) -> None:
    assert run("convert", "--model=in.onnx", f"--pattern_fusion_pass={value}").exit_code == 0
    assert fake_convert.calls[0]["pattern_fusion_pass"] is expected


@pytest.mark.parametrize(
    "option",
    ["model", "output", "fusion_switch_file", "custom_passes", "dump_graph", "json", "report"],
)
def test_an_empty_path_is_not_the_current_folder(run: Any, fake_convert: Any, option: str) -> None:
    result = run("convert", "--model=in.onnx", f"--{option}=")
    assert result.exit_code == 2 and fake_convert.calls == []
    assert f"--{option}" in result.stderr and "it is empty" in result.stderr


@pytest.mark.parametrize(
    "word", ["--model=in.onnx", "--model", "-model", "--fusion-switch-file=a", "-o", "-o=o.onnx"]
)
def test_an_option_without_its_command_names_the_command(run: Any, word: str) -> None:
    result = run(word)
    assert result.exit_code == 2 and f"write: fusionc convert {word}" in result.stderr
    assert "No such option" not in result.stderr


def test_an_option_of_nobody_is_no_option(run: Any) -> None:
    assert "No such option" in run("--modle=in.onnx").stderr


@pytest.mark.parametrize(
    "line",
    [
        "convert in.onnx out.onnx",
        "convert in.onnx -o out.onnx",
        "convert in.onnx -o=out.onnx",
        "convert -o out.onnx in.onnx",
        "convert --output=out.onnx in.onnx",
        "convert --model in.onnx -o out.onnx",
        "convert in.onnx -output out.onnx",
        "convert -- in.onnx out.onnx",
        "convert --enable_graph_kernel in.onnx out.onnx",
        "convert --no-verify in.onnx --oo_level O1 out.onnx",
        "in.onnx out.onnx",
        "in.onnx -o out.onnx",
        "in.onnx --output out.onnx",
    ],
)
def test_models_need_no_option(run: Any, fake_convert: Any, line: str) -> None:
    result = run(*line.split())
    assert result.exit_code == 0, result.output
    (call,) = fake_convert.calls
    assert (call["model"], call["output"]) == (Path("in.onnx"), Path("out.onnx"))
    assert call["verify"] is ("--no-verify" not in line)


def test_one_model_without_option(run: Any, fake_convert: Any) -> None:
    for words in (["in.onnx"], ["convert", "in.onnx"], ["./in"]):
        assert run(*words).exit_code == 0
    assert [call["output"] for call in fake_convert.calls] == [None, None, None]
    assert fake_convert.calls[-1]["model"] == Path("in")


def test_a_file_that_exists_is_converted_and_is_not_a_misspelt_command(
    run: Any, fake_convert: Any, tmp_path: Path
) -> None:
    Path("convrt").touch()
    assert run("convrt").exit_code == 0 and fake_convert.calls[0]["model"] == Path("convrt")


@pytest.mark.parametrize(
    ("name", "line"),
    [
        ("why", "why Gelu in.onnx"),
        ("why", "why in.onnx Gelu"),
        ("why", "why Gelu --model in.onnx"),
        ("tune", "tune in.onnx out.onnx"),
        ("bisect", "bisect in.onnx"),
    ],
)
def test_other_commands_take_models_without_option(
    run: Any, stand_in: Any, name: str, line: str
) -> None:
    calls = []

    def remember(*words: Any, **options: Any) -> None:
        calls.append((*map(str, words), str(options.get("output"))))
        raise UsageError("enough")

    stand_in("fusionc.api", **{name: remember, "convert_up_to": remember})
    assert "enough" in run(*line.split()).stderr
    expected = {"why": ("in.onnx", "Gelu", "None"), "tune": ("in.onnx", "out.onnx")}
    assert calls == [expected.get(name, ("in.onnx", "None"))]


def test_an_optional_value_is_not_the_model(run: Any, fake_convert: Any) -> None:
    assert run("convert", "--enable_graph_kernel", "false", "in.onnx").exit_code == 0
    assert run("convert", "--enable_graph_kernel", "in.onnx").exit_code == 0
    assert [call["enable_graph_kernel"] for call in fake_convert.calls] == [False, True]


def test_help_shows_where_models_stand(run: Any) -> None:
    assert "Usage: fusionc convert [OPTIONS] [MODEL] [OUTPUT]" in run("convert", "--help").stdout
    assert "-o, --output FILE" in run("convert", "--help").stdout


@pytest.mark.parametrize(
    ("line", "expected"),
    [
        ("fusionc conv", "plain,convert"),
        ("fusionc convert --outp", "plain,--output"),
        ("fusionc convert in.onnx --output ", "file,"),
        ("fusionc convert a b c --outp", "plain,--output"),
    ],
)
def test_unfinished_lines_are_completed(line: str, expected: str) -> None:
    words = {
        "COMP_WORDS": line,
        "COMP_CWORD": str(line.count(" ")),
        "_FUSIONC_COMPLETE": "bash_complete",
    }
    shown = CliRunner().invoke(main, [], prog_name="fusionc", env=words)
    assert shown.stdout.splitlines()[0].startswith(expected), shown.output


@pytest.mark.parametrize(
    ("line", "hint"),
    [
        ("convert a --out b", "No such option '--out'; did you mean --output, --out_nodes or"),
        ("convert a --OUTPUT b", "No such option '--OUTPUT'; did you mean --output, "),
        ("convert a --fusion-swich-file b", "did you mean --fusion_switch_file?"),
        ("convert a --opset 3", "did you mean --target_opset?"),
        ("verify a b --shape x:1", "did you mean --input_shape?"),
        ("bench a --thread 2", "did you mean --threads?"),
        ("convert a --zzz", "No such option '--zzz'."),
        (
            "in.onnx o.onnx --overwrite-input-shape x:1,256",
            "No such option '--overwrite-input-shape'; give --input_shape",
        ),
        ("in.onnx --input-shapes x:1,256", "'--input-shapes'; give --input_shape"),
        ("in.onnx --dtype fp16", "'--dtype'; give --precision_mode_v2 mixed_float16"),
        ("in.onnx --inspect", "'--inspect'; write: fusionc inspect MODEL."),
        ("in.onnx --outputs y", "'--outputs'; give --out_nodes."),
        ("in.onnx --skip-fuse-bn", "give --disable ConvBatchnormFusionPass."),
        ("in.onnx --no-large-tensor", "leave it out: folding adds at most 1 MiB in all."),
        ("in.onnx --model-check", "leave it out: every result is verified."),
        ("in.onnx o.onnx 3", "argument (3); leave it out: every result is verified"),
        ("in.onnx o.onnx p.onnx", "argument (p.onnx); write --model before each model"),
        ("verify a.onnx b.onnx -input-shap x:1", "No such option '-input-shap'; did you mean"),
        ("convert a.onnx -x b.onnx c.onnx", "No such option '-x'."),
    ],
)
def test_the_nearest_option_is_named_first(run: Any, line: str, hint: str) -> None:
    result = run(*line.split())
    assert result.exit_code == 2 and hint in " ".join(result.stderr.split())
