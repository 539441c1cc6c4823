"""What `fusionc convert` passes on, prints, and exits with."""

from __future__ import annotations

import errno
import json
import re
import sys
from pathlib import Path
from typing import Any

import pytest

from fusionc.cli import main
from fusionc.errors import FusioncError, UsageError, VerificationError
from fusionc.report.progress import Progress

SAMPLES = Path(__file__).parents[2] / "sample_models"

START = "FUSIONC start working now, please wait for a moment."
SUCCESS = "FUSIONC run success, welcome to the next use."
FAILURE = "FUSIONC run failed"


def test_every_option_reaches_the_conversion(run: Any, fake_convert: Any) -> None:
    result = run(
        "convert", "--model=in.onnx", "--output=dir/out", "--framework=5",
        "--fusion_switch_file=s.cfg",
        "--optimization_switch=P:on;Q:off", "--external_weight=1", "--input_shape=x:1,3;ids:",
        "--oo_level=O1", "--oo_constant_folding=false", "--oo_dead_code_elimination=0",
        "--input_shape_range=y:[1~8,-1]", "--out_nodes=a:0;b:1", "--output_type=FP16",
        "--verify_shape=y:4,-1", "--insert_op_conf=a.cfg", "--input_format=nhwc",
        "--dynamic_batch_size=1, 2", "--dynamic_image_size=8,8;4,4;", "--dynamic_dims=1;2",
        "--keep_nodes=a;b/",
        "--inputs=d.npz", "--custom_op_library=a.so", "--custom_op_library=b.so", "--no-verify",
        "--runtime_level=disabled", "--runtime_level=basic",
        "--log=warning", "--export_compile_stat=2", "--mode=0", "--target=onnx",
        "--target_opset=23",
        "--custom_passes=a.py", "--custom_passes=b.py", "--pattern_fusion_pass=false",
        "--dump_graph=d",
        "--enable_graph_kernel", "--graph_kernel_flags", "--opt_level=3 --disable_pass=P",
        "--timeout=1.5",
        "--trust_kernels", "--free_dim=x:0,2; a:0:1=n", "--report=r.html",
        "--on_mismatch=rollback", "--check_rewrites",
        "--require_verification", "--ready", "--verify_budget=0.5", "--precision_mode_v2=mixed_bfloat16",
        "--precision_error=1e-2", "--keep_dtype=keep.txt", "--precision_mode=force_fp16",
        "--customize_dtypes=types.cfg", "--modify_mixlist=lists.json",
    )  # fmt: skip
    assert result.exit_code == 0, result.output
    (call,) = fake_convert.calls
    assert callable(call.pop("progress"))
    assert call == {
        "model": Path("in.onnx"),
        "output": Path("dir/out"),
        "fusion_switch_file": Path("s.cfg"),
        "optimization_switch": "P:on;Q:off",
        "oo_level": "O1",
        "oo_constant_folding": False,
        "oo_dead_code_elimination": False,
        "external_weight": 1,
        "input_shape": {"x": (1, 3), "ids": (), "y": ((1, 8), -1)},
        "free_dim": {"x": {0: "", 2: ""}, "a:0": {1: "n"}},
        "out_nodes": "a:0;b:1",
        "output_type": "FP16",
        "verify_shape": {"y": (4, 2)},
        "insert_op_conf": Path("a.cfg"),
        "input_format": "NHWC",
        "dynamic_batch_size": (1, 2),
        "dynamic_image_size": ((8, 8), (4, 4)),
        "dynamic_dims": ((1,), (2,)),
        "keep_nodes": "a;b/",
        "inputs": Path("d.npz"),
        "custom_op_library": (Path("a.so"), Path("b.so")),
        "runtime_level": ("disabled", "basic"),
        "verify": False,
        "on_mismatch": "rollback",
        "check_rewrites": True,
        "require_verification": True,
        "export_compile_stat": 2,
        "log": "warning",
        "target": "onnx",
        "target_opset": 23,
        "custom_passes": (Path("a.py"), Path("b.py")),
        "pattern_fusion_pass": False,
        "dump_graph": Path("d"),
        "report": Path("r.html"),
        "enable_graph_kernel": True,
        "graph_kernel_flags": "--opt_level=3 --disable_pass=P",
        "trust_kernels": True,
        "ready": True,
        "verify_budget": 0.5,
        "timeout": 1.5,
        "precision_mode_v2": "mixed_bfloat16",
        "precision_error": 0.01,
        "keep_dtype": Path("keep.txt"),
        "precision_mode": "force_fp16",
        "customize_dtypes": Path("types.cfg"),
        "modify_mixlist": Path("lists.json"),
    }


def test_defaults(run: Any, fake_convert: Any) -> None:
    assert run("convert", "--model", "some/in.v2.onnx").exit_code == 0
    (call,) = fake_convert.calls
    del call["progress"]
    assert call == {
        "model": Path("some/in.v2.onnx"),
        "output": None,
        "fusion_switch_file": None,
        "optimization_switch": None,
        "oo_level": "O3",
        "oo_constant_folding": True,
        "oo_dead_code_elimination": True,
        "external_weight": None,
        "input_shape": None,
        "free_dim": None,
        "out_nodes": None,
        "output_type": None,
        "verify_shape": None,
        "insert_op_conf": None,
        "input_format": None,
        "dynamic_batch_size": None,
        "dynamic_image_size": None,
        "dynamic_dims": None,
        "keep_nodes": None,
        "inputs": None,
        "custom_op_library": (),
        "runtime_level": ("disabled", "all"),
        "verify": True,
        "on_mismatch": "fail",
        "check_rewrites": False,
        "require_verification": False,
        "export_compile_stat": 1,
        "log": None,
        "target": "onnxruntime-cpu",
        "target_opset": None,
        "custom_passes": (),
        "pattern_fusion_pass": True,
        "dump_graph": None,
        "report": None,
        "enable_graph_kernel": None,
        "graph_kernel_flags": None,
        "trust_kernels": False,
        "ready": False,
        "verify_budget": None,
        "timeout": None,
        "precision_mode_v2": None,
        "precision_mode": None,
        "customize_dtypes": None,
        "modify_mixlist": None,
        "precision_error": None,
        "keep_dtype": None,
    }


@pytest.mark.parametrize(("text", "share"), [("0.01", 0.01), ("1e-2", 0.01), ("1", 1.0)])
def test_a_share_becomes_a_number(run: Any, fake_convert: Any, text: str, share: float) -> None:
    assert run("convert", "--model=in.onnx", "--precision_error", text).exit_code == 0
    (call,) = fake_convert.calls
    assert call["precision_error"] == share and isinstance(call["precision_error"], float)


@pytest.mark.parametrize("command", ["convert", "tune", "bisect"])
@pytest.mark.parametrize("text", ["0", "2", "-1", "abc", "nan", ""])
def test_what_is_no_share_is_refused(run: Any, fake_convert: Any, command: str, text: str) -> None:
    result = run(command, "--model=in.onnx", f"--precision_error={text}")
    assert (result.exit_code, fake_convert.calls) == (2, [])
    complaint = f"'--precision_error': {text!r} is not a number above 0 and at most 1."
    assert complaint in " ".join(result.stderr.split())


def test_success_in_a_pipe(run: Any, fake_convert: Any) -> None:
    result = run("convert", "--model", "in.onnx")
    lines = result.stdout.splitlines()
    assert (lines[0], lines[1], lines[-1]) == (START, *fake_convert.report.pattern_lines, SUCCESS)
    assert "ConvBatchnormFusionPass" in result.stdout and "from the conversion" in result.stdout
    assert [line for line in lines if "effected_times" in line] == fake_convert.report.pattern_lines
    assert result.exit_code == 0 and result.stderr == ""


def test_success_in_a_terminal(
    run: Any, fake_convert: Any, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(sys.stdout, "isatty", lambda: True)
    main(["convert", "--model", "in.onnx"], standalone_mode=False)
    text = capsys.readouterr().out
    assert "ConvBatchnormFusionPass" in text and "effected_times" not in text


@pytest.mark.parametrize(
    ("error", "exit_code"),
    [
        (FusioncError("the disk is full", where="/out", hint="make room", code="E13004"), 1),
        (UsageError("the switch is wrong", where="/out", hint="make room", code="E13004"), 2),
        (VerificationError("the outputs differ", where="/out", hint="make room", code="E13004"), 3),
    ],
)
def test_failure(run: Any, fake_convert: Any, error: FusioncError, exit_code: int) -> None:
    fake_convert.error = error
    result = run("convert", "--model", "in.onnx")
    assert result.stdout.splitlines() == [START, FAILURE]
    assert result.stderr.splitlines() == [
        f"E13004: {error.what}",
        "  where: /out",
        "  to do: make room",
    ]
    assert result.exit_code == exit_code


@pytest.mark.parametrize(
    ("log", "hint", "lines"),
    [
        (None, "make room", [FAILURE]),
        ("a.log", "make room", [f"{FAILURE}, Please check the detail log", "log  a.log"]),
        (None, "", [f"{FAILURE}, Try 'fusionc convert --help' for more information"]),
    ],
)
def test_a_failure_names_the_log_and_the_help_only_where_they_help(
    run: Any, fake_convert: Any, log: str | None, hint: str, lines: list[str]
) -> None:
    fake_convert.error = FusioncError("the disk is full", hint=hint)
    fake_convert.error.log_file = log
    assert run("convert", "--model", "in.onnx").stdout.splitlines() == [START, *lines]


def test_what_nobody_foresaw_is_one_block(run: Any, fake_convert: Any) -> None:
    fake_convert.error = KeyError("weights")
    result = run("convert", "--model", "in.onnx")
    assert result.stdout.splitlines() == [START, FAILURE]
    first, where, hint = result.stderr.splitlines()
    assert (
        first == "E19999: Internal Error! KeyError: 'weights'"
        and where == "  where: fusionc convert"
    )
    assert "--log debug" in hint and "report" in hint
    assert result.exit_code == 1


@pytest.mark.parametrize("error", [KeyError("weights"), UsageError("wrong")])
@pytest.mark.parametrize(("level", "shown"), [("debug", True), ("info", False), ("null", False)])
def test_a_traceback_only_at_level_debug(
    run: Any, fake_convert: Any, error: Exception, level: str, shown: bool
) -> None:
    fake_convert.error = error
    assert ("Traceback" in run("convert", "--model", "in.onnx", "--log", level).stderr) == shown


def test_output_that_nobody_reads_any_more(run: Any, fake_convert: Any) -> None:
    fake_convert.error = BrokenPipeError(errno.EPIPE, "Broken pipe")
    result = run("convert", "--model", "in.onnx")
    assert (result.exit_code, result.stderr) == (1, "")


def test_interrupted(run: Any, fake_convert: Any) -> None:
    fake_convert.error = KeyboardInterrupt()
    result = run("convert", "--model", "in.onnx", "--log", "debug")
    assert (result.exit_code, result.stderr) == (130, "fusionc: interrupted\n")
    assert result.stdout.splitlines() == [START]


@pytest.mark.parametrize(
    ("words", "reason"),
    [
        ([], "Missing option '--model'"),
        (["--model=a", "--framework=3"], "only 5 (ONNX)"),
        (["--model=a", "--mode=5"], "'5' is not one of '0', '1', '3', '6'"),
        (["--mode=6"], "Missing option '--om' or '--model'"),
        (["--mode=3"], "Missing option '--model'"),
        (["--mode=3", "--om=a"], "--om is for --mode 1 and 6"),
        (["--om=a"], "--om is for --mode 1 and 6"),
        (["--mode=6", "--om=a", "--model=b"], "--om and --model name different files"),
        (["--model=a", "--mode=1"], "--mode 1 needs --json FILE"),
        (["--model=a", "--oo_level=O2"], "'O2' is not one of 'O1', 'O3'"),
        (["--model=a", "--oo_constant_folding=maybe"], "'maybe' is not a boolean"),
        (["--model=a", "--log=loud"], "'loud' is not one of"),
        (["--model=a", "--export_compile_stat=3"], "'3' is not one of"),
        (["--model=a", "--target=gpu"], "'gpu' is not one of"),
        (["--model=a", "--input_shape=x"], '"x" is not of the form name:1,3,224,224'),
        (["--model=a", "--input_shape=x:1,a"], '"x:1,a" is not of the form'),
        (["--model=a", "--input_shape=:1"], '":1" is not of the form'),
        (["--model=a", "--input_shape=x:-2"], '"x:-2" is not of the form'),
        (["--model=a", "--input_shape=x:1;x:2"], '"x" is given twice'),
        (["--model=a", "--input_shape=;"], '";" names no input'),
        (["--model=a", "--input_shape="], '"" names no input'),
        (["--model=a", "--input_shape_range=x:[1~a]"], '"x:[1~a]" is not of the form'),
        (["--model=a", "--input_shape=x:1;y:2", "--input_shape_range=x:[1]"], "both name x"),
        (["--model=a", "--verify_shape=x"], '"x" is not of the form name:1,3,224,224'),
        (["--model=a", "--free_dim=x"], '"x" is not of the form name:0,2'),
        (["--model=a", "--free_dim=x:0="], '"x:0=" is not of the form'),
        (["--model=a", "--free_dim=;"], '";" names no input'),
        (["--model=a", "word"], "unexpected extra argument"),
        (["a", "b", "c", "d"], "unexpected extra argument (c d); write --model before each"),
        (["--model=a", "b"], "unexpected extra argument (b); write --model before each model"),
        (["a", "b", "-o", "c"], "b and --output both name the output"),
        (["a", "-o"], "Option '--output' requires an argument"),
    ],
)
def test_usage_errors(run: Any, fake_convert: Any, words: list[str], reason: str) -> None:
    result = run("convert", *words)
    assert result.exit_code == 2 and fake_convert.calls == []
    assert reason in re.sub(r"\s+", " ", result.stderr)
    assert result.stdout == ""


@pytest.mark.parametrize(
    ("words", "code"),
    [
        ([], "E10007"),
        (["--mode=3"], "E10007"),
        (["--model"], "E10004"),
        (["--model=a", "--framework=3"], "E10001"),
        (["--model=a", "--oo_level=O2"], "E10001"),
        (["--model=a", "--oo_constant_folding=maybe"], "E10001"),
        (["--model=a", "--input_shape=x"], "E10001"),
        (["--model=a", "--export_compile_stat=3"], "E10001"),
        (["--model=a", "--log=loud"], "E10010"),
        (["--model=a", "--no_such_option=1"], ""),
        (["--model=a", "word"], ""),
    ],
)
def test_usage_errors_have_the_codes_of_atc(
    run: Any, fake_convert: Any, words: list[str], code: str
) -> None:
    """ATC itself has no code for an option that it does not know, and for a word too many."""
    error = run("convert", *words).stderr.partition("\nError: ")[2]
    assert re.match(code or "[A-Z][a-z]", error), error


@pytest.mark.parametrize(
    ("text", "sizes", "to_run"),
    [
        ("x:1,3,224,224", {"x": (1, 3, 224, 224)}, {"x": (1, 3, 224, 224)}),
        (" x : 1 , 3 ; ids:0; ", {"x": (1, 3), "ids": (0,)}, {"x": (1, 3), "ids": (0,)}),
        ("a:0:1,2", {"a:0": (1, 2)}, {"a:0": (1, 2)}),
        ("x:", {"x": ()}, {"x": ()}),
        ("x:-1,3", {"x": (-1, 3)}, {"x": (2, 3)}),
        ("x:1~8,4~-1,1~-1", {"x": ((1, 8), (4, -1), (1, -1))}, {"x": (8, 4, 2)}),
        ("x:[1~8, 4]; y:[]", {"x": ((1, 8), 4), "y": ()}, {"x": (8, 4), "y": ()}),
    ],
)
@pytest.mark.parametrize("option", ["input_shape", "input_shape_range", "verify_shape"])
def test_shapes(
    run: Any, fake_convert: Any, option: str, text: str, sizes: Any, to_run: Any
) -> None:
    assert run("convert", "--model", "in.onnx", f"--{option}", text).exit_code == 0
    shapes = {name: fake_convert.calls[0][name] for name in ("input_shape", "verify_shape")}
    expected = {"input_shape": None, "verify_shape": to_run} if option == "verify_shape" else {
        "input_shape": sizes, "verify_shape": None
    }  # fmt: skip
    assert shapes == expected


@pytest.mark.parametrize(
    "word", ["--disable_cluster_ops=Exp", "--opt-level=3", "-dump_as_text", "--online_tuning=1"]
)
def test_a_flag_of_graph_kernels_given_as_an_option(run: Any, fake_convert: Any, word: str) -> None:
    result = run("convert", "--model=in.onnx", word)
    name = word.lstrip("-").partition("=")[0].replace("-", "_")
    assert result.exit_code == 2 and f'--graph_kernel_flags "--{name}=..."' in result.stderr
    assert run("verify", "a.onnx", "b.onnx", word).stderr.count("graph_kernel_flags") == 0


def test_help_says_where_the_flags_of_graph_kernels_are(run: Any) -> None:
    text = " ".join(run("convert", "--help").stdout.split())
    assert "--disable_cluster_ops=Exp,Log keeps these operators out of kernels" in text


@pytest.mark.parametrize(
    ("words", "switches"),
    [
        (["--disable", "P"], "P:off"),
        (["--enable=P", "--disable=Q", "--disable=R"], "P:on;Q:off;R:off"),
        (["--optimization_switch=A:on", "--disable=Q"], "A:on;Q:off"),
        ([], None),
    ],
)
@pytest.mark.parametrize("command", ["convert", "tune", "bisect"])
def test_single_switches(
    run: Any, stand_in: Any, command: str, words: list[str], switches: str | None
) -> None:
    calls = []

    def remember(*_: Any, **options: Any) -> None:
        calls.append(options["optimization_switch"])
        raise UsageError("enough")

    stand_in("fusionc.api", convert_up_to=remember, **{command: remember})
    run(command, "in.onnx", *words)
    assert calls == [switches]


def test_a_pass_is_switched_once(run: Any) -> None:
    sample = str(SAMPLES / "conv_bn.onnx")
    result = run("convert", sample, "--enable=EinsumPass", "--disable=EinsumPass")
    assert result.exit_code == 2 and '"EinsumPass" is given twice' in result.stderr
    result = run("convert", sample, "--disable=EinsumPas")
    assert result.exit_code == 2 and 'did you mean "EinsumPass"?' in result.stderr


def test_quiet(run: Any, fake_convert: Any) -> None:
    for word in ("-q", "--quiet"):
        result = run("convert", "in.onnx", word)
        assert (result.exit_code, result.output) == (0, "")
    fake_convert.report.verification = "not verified: no kernel"
    result = run("convert", "in.onnx", "-q")
    assert (result.exit_code, result.output) == (4, "NOT VERIFIED: no kernel\n")
    fake_convert.error = UsageError("wrong")
    result = run("convert", "in.onnx", "-q")
    assert (result.exit_code, result.stdout) == (2, "") and "wrong" in result.stderr


def test_no_status_line_if_quiet(
    run: Any, fake_convert: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """In a terminal, too."""
    asked = []
    monkeypatch.setattr(Progress, "__init__", lambda _, is_quiet=False: asked.append(is_quiet))
    monkeypatch.setattr(Progress, "__enter__", lambda progress: progress)
    monkeypatch.setattr(Progress, "__exit__", lambda *_: None)
    run("convert", "in.onnx", "-q")
    run("convert", "in.onnx")
    assert asked == [True, False]


def test_a_report_for_scripts(run: Any, fake_convert: Any) -> None:
    assert run("convert", "in.onnx", "--report_json", "r.json").exit_code == 0
    report = json.loads(Path("r.json").read_text())
    assert (report["exit_code"], report["model"], report["unverified"]) == (0, "in.onnx", None)
    assert report["passes"][0]["name"] == "ConvBatchnormFusionPass"
    assert report["passes"][0]["effected"] == 2 and report["notices"] == ["from the conversion"]
    fake_convert.report.verification = "not verified: no kernel"
    assert run("convert", "in.onnx", "--report_json=r.json").exit_code == 4
    report = json.loads(Path("r.json").read_text())
    assert (report["exit_code"], report["unverified"]) == (4, "no kernel")
    fake_convert.error = VerificationError("differs", where="/out", hint="look", code="E13004")
    assert run("convert", "in.onnx", "--report_json=r.json").exit_code == 3
    report = json.loads(Path("r.json").read_text())
    assert report["exit_code"] == 3 and report["error"] == {
        "code": "E13004",
        "what": "differs",
        "details": [],
        "where": "/out",
        "hint": "look",
    }


@pytest.mark.parametrize(
    ("file", "problem"),
    [
        ("in.onnx", "names the model itself"),
        ("no/r.json", "the folder"),
        ("-", "- is the standard"),
    ],
)
def test_a_report_that_cannot_be_written_ends_the_command_before_any_work(
    run: Any, fake_convert: Any, file: str, problem: str
) -> None:
    result = run("convert", "in.onnx", "--report_json", file)
    assert result.exit_code == 2 and problem in " ".join(result.stderr.split())
    assert fake_convert.calls == []


@pytest.mark.parametrize(
    "words", [["-", "out"], ["in.onnx", "-"], ["--model", "-"], ["in.onnx", "--output=-"]]
)
def test_streams_are_refused(run: Any, fake_convert: Any, words: list[str]) -> None:
    result = run("convert", *words)
    assert result.exit_code == 2 and fake_convert.calls == []
    assert "- is the standard input or output" in " ".join(result.stderr.split())
    assert "./-" in result.stderr and not list(Path().iterdir())
