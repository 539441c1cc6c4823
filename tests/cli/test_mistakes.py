"""Mistakes on the command line: each ends with its exit code and one block on stderr, which names
the file or option and says what to do.
"""

from __future__ import annotations

import shlex
import shutil
from pathlib import Path

import numpy as np
import onnx
import pytest
from click.testing import CliRunner

from fusionc.cli import main

SAMPLES = Path(__file__).parents[2] / "sample_models"


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with models and files that are wrong, each in its way."""
    folder = tmp_path_factory.mktemp("mistakes")
    shutil.copy(SAMPLES / "conv_bn.onnx", folder / "good.onnx")
    shutil.copy(SAMPLES / "matmul_bias.onnx", folder / "other.onnx")
    whole = (SAMPLES / "conv_bn.onnx").read_bytes()
    for name, content in {
        "empty.onnx": b"",
        "cut.onnx": whole[:5000],
        "lfs.onnx": b"version https://git-lfs.github.com/spec/v1\noid sha256:abc\nsize 5\n",
        "page.onnx": b"<!DOCTYPE html><html></html>",
        "pt.onnx": b"PK\x03\x04archive/data.pkl" + bytes(64),
        "weights.onnx": (20).to_bytes(8, "little") + b'{"a":{"dtype":"F32"}}' + bytes(64),
        "lite.onnx": b"\x1c\0\0\0TFL3" + bytes(64),
        "ov.xml": b'<?xml version="1.0"?><net name="m" version="11"></net>',
        "text.onnx": b"hello there, this is a text\n",
        "bad.json": b'{"Switch": {"GraphFusion": {"ALL": "on",}}}',
        "list.json": b"[]",
        "typo.json": b'{"Switch": {"GraphFusion": {"ConvBatchnormFusionPas": "on"}}}',
        "value.json": b'{"Switch": {"GraphFusion": {"ALL": "maybe"}}}',
        "nopass.py": b"x = 1\n",
        "broken.py": b"def f(:\n",
        "notes.txt": b"x",
    }.items():
        folder.joinpath(name).write_bytes(content)
    folder.joinpath("folder").mkdir()
    model = onnx.load(SAMPLES / "conv_bn.onnx")
    model.opset_import[0].version = 99
    onnx.save(model, folder / "opset99.onnx")
    np.savez(folder / "wrong.npz", nothing=np.ones(3, np.float32))
    return folder


# the command, its exit code, what the block says
MISTAKES = [
    ("convert", 2, "--model"),
    ("convert missing.onnx", 2, "E10410|missing.onnx"),
    ("convert folder/missing.onnx", 2, "E10410|folder/missing.onnx"),
    ("convert folder", 2, "E10001|folder|--output"),
    ("convert empty.onnx", 1, "E13005|empty|download the model again"),
    ("convert cut.onnx", 1, "E13005|cut off|needs at least 16,144"),
    ("convert lfs.onnx", 1, "E13005|Git LFS|git lfs pull"),
    ("convert page.onnx", 1, "E13005|web page|/resolve/"),
    ("convert pt.onnx", 1, "E13005|PyTorch|torch.onnx.export"),
    ("convert weights.onnx", 1, "E13005|safetensors|optimum-cli"),
    ("convert lite.onnx", 1, "E13005|TensorFlow Lite|tf2onnx"),
    ("convert ov.xml", 1, "E13005|OpenVINO|ONNX model from which it was made"),
    ("convert text.onnx", 1, "E13005|not an ONNX model|text.onnx"),
    ("convert https://example.com/m.onnx", 2, "E10410|address|curl -L"),
    ("convert -", 2, "E10001|--model|./-"),
    ("convert /dev/null", 2, "E10410|/dev/null|save the model to a file"),
    ("convert good.onnx -o -", 2, "E10001|--output|./-"),
    ("convert good.onnx -o /dev/stdout", 2, "E10001|/dev/stdout|--output"),
    ("convert good.onnx -o nowhere/out.onnx", 2, "E13004|mkdir -p nowhere"),
    ("convert good.onnx -o folder", 2, "E10001|folder|--output"),
    ("convert good.onnx -o out.json", 2, "E10001|.json|.onnx"),
    ("convert good.onnx out.onnx third.onnx", 2, "third.onnx|--model"),
    ("convert good.onnx out.onnx -o other_out.onnx", 2, "out.onnx|--output"),
    ("convert opset99.onnx", 1, "E13005|opset 99 of ai.onnx|install a newer onnx"),
    ("why opset99.onnx GeluFusionPass", 1, "E13005|opset 99 of ai.onnx|install a newer onnx"),
    ("convert good.onnx --fusion_switch_file missing.json", 2, "E21001|missing.json|switch_file"),
    ("convert good.onnx --fusion_switch_file bad.json", 2, "E21002|bad.json:1:41|correct"),
    ("convert good.onnx --fusion_switch_file list.json", 2, "E21002|list.json:1:1|Switch"),
    (
        "convert good.onnx --fusion_switch_file typo.json",
        2,
        'E21002|typo.json:1:29|did you mean "ConvBatchnormFusionPass"?',
    ),
    ("convert good.onnx --fusion_switch_file value.json", 2, 'E21002|value.json:1:36|"maybe"'),
    ("convert good.onnx --optimization_switch NoSuchPass:on", 2, "E10001|NoSuchPass|P:on;Q:off"),
    ("convert good.onnx --optimization_switch GeluFusionPass", 2, "E10001|GeluFusionPass|P:on"),
    ("convert good.onnx --optimization_switch GeluFusionPass:may", 2, 'E10001|"may"|"off"'),
    ("convert good.onnx --disable NoSuchPass", 2, "E10001|NoSuchPass|--disable"),
    ("convert good.onnx --enable gelu", 2, 'E10001|did you mean "GeluFusionPass"?|--enable'),
    ("convert good.onnx --input_shape nosuch:1,3,32,32", 2, "E10016|--input_shape|image"),
    ("convert good.onnx --input_shape image:1,3", 2, "--input_shape|image"),
    ("convert good.onnx --input_shape image", 2, "E10001|--input_shape|name:1,3,224,224"),
    ("convert good.onnx --input_shape image:a,b,c,d", 2, "E10001|--input_shape|image:a,b,c,d"),
    ("convert good.onnx --free_dim nosuch:0", 2, "E10016|--free_dim|image"),
    ("convert good.onnx --out_nodes nosuch:0", 2, "E10016|--out_nodes|features"),
    ("convert good.onnx --output_type FP99", 2, "E10001|--output_type|FP99|FP32"),
    ("convert good.onnx --target tensorrt", 2, "E10001|--target|tensorrt|onnxruntime-cpu"),
    ("convert good.onnx --target_opset 3", 2, "E10001|--target_opset|17"),
    ("convert good.onnx --target_opset 99", 2, "E10001|--target_opset|99"),
    ("convert good.onnx --target_opset seven", 2, "E10001|--target_opset|seven"),
    ("convert good.onnx --framework 3", 2, "E10001|--framework|5 (ONNX)"),
    ("convert good.onnx --soc_versions Ascend310", 2, "did you mean --soc_version?"),
    ("convert good.onnx --modle x", 2, "--modle|--model"),
    ("convert good.onnx --oo_level O9", 2, "E10001|--oo_level|O9|O3"),
    ("convert good.onnx --log loud", 2, "E10010|--log|loud|debug"),
    ("convert good.onnx --inputs missing.npz", 2, "E10410|missing.npz|exists"),
    ("convert good.onnx --inputs wrong.npz", 2, "E10001|wrong.npz|nothing|image"),
    ("convert good.onnx --inputs notes.txt", 2, "E10001|notes.txt|.npz"),
    ("convert good.onnx --custom_passes missing.py", 2, "E10410|missing.py|--custom_passes"),
    ("convert good.onnx --custom_passes nopass.py", 2, "E10001|nopass.py|register_replacement"),
    ("convert good.onnx --custom_passes broken.py", 1, "E20007|broken.py:1|correct the file"),
    ("convert good.onnx --custom_op_library missing.so", 2, "E10410|missing.so|library"),
    ("convert good.onnx --custom_op_library notes.txt", 2, "E10001|notes.txt|RegisterCustomOps"),
    ("convert good.onnx --report nowhere/r.html", 2, "E10410|--report|mkdir -p nowhere"),
    ("convert good.onnx --report good.onnx", 2, "E10001|--report|another name"),
    ("convert good.onnx --precision_mode_v2 mixed_bfloat16", 2, "E10001|--enable_graph_kernel"),
    ("convert good.onnx --precision_mode_v2 fp17", 2, "E10001|--precision_mode_v2|origin"),
    ("convert good.onnx --verify_budget -1", 2, "E10001|--verify_budget|x>=0"),
    ("convert good.onnx --timeout never", 2, "E10001|--timeout|never"),
    ("convert good.onnx --no-verify --require_verification", 2, "E10001|leave out one"),
    ("convert good.onnx --mode 9", 2, "E10001|--mode|'6'"),
    ("convert good.onnx --external_weight 7", 2, "E10001|--external_weight|0, 1 or 2"),
    ("convert good.onnx --export_compile_stat 5", 2, "E10001|--export_compile_stat|'2'"),
    ("convrt good.onnx", 2, "did you mean convert?"),
    ("verify good.onnx", 2, "E10007|CANDIDATE"),
    ("verify good.onnx missing.onnx", 2, "E10410|missing.onnx"),
    ("passes NoSuchPass", 2, "E10001|NoSuchPass|fusionc passes"),
    ("passes --operator NoSuchOperator", 2, "E10001|--operator|NoSuchOperator"),
    ("switch_file nowhere/s.json", 2, "nowhere/s.json"),
    ("inspect missing.onnx", 2, "E10410|missing.onnx"),
    ("inspect cut.onnx", 1, "E13005|cut.onnx|again"),
    ("diff good.onnx", 2, "E10007|AFTER"),
    ("diff good.onnx missing.onnx", 2, "E10410|missing.onnx"),
    ("bench", 2, "E10007|MODEL"),
    ("bench missing.onnx", 2, "E10410|missing.onnx"),
    ("why good.onnx NoSuchPass", 2, "E10001|NoSuchPass|fusionc passes"),
    ("tune missing.onnx", 2, "E10410|missing.onnx"),
]


@pytest.mark.parametrize(
    ("command", "code", "said"), MISTAKES, ids=[command for command, *_ in MISTAKES]
)
def test_a_mistake_ends_with_one_block_that_says_what_to_do(
    command: str, code: int, said: str, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(folder)
    monkeypatch.setenv("FUSIONC_PROCESS_LOG_PATH", str(folder / "log"))
    before = set(folder.iterdir())
    done = CliRunner().invoke(main, shlex.split(command), prog_name="fusionc")
    assert isinstance(done.exception, SystemExit) and done.exit_code == code, done.output
    for part in said.split("|"):
        assert part in done.stderr
    lines = done.stderr.strip().splitlines()
    if lines[0].startswith("Usage: "):  # click's block: usage, where help is, a blank line, error
        assert lines[1].startswith("Try 'fusionc ") and lines[3].startswith("Error: ")
        assert len(lines) == 4
    else:
        assert [line.split(":")[0].strip() for line in lines[1:]] == ["where", "to do"]
    assert set(folder.iterdir()) - before <= {folder / "log"}  # nothing was written


def test_the_list_has_at_least_sixty() -> None:
    assert len({command for command, *_ in MISTAKES}) >= 60
