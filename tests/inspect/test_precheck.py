"""Mode 3: what would not run, and why."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import onnx
import onnxruntime
import pytest
from harness import parse
from onnx import ModelProto, helper

from fusionc.inspect.precheck import precheck

SAMPLES = sorted((Path(__file__).parents[2] / "sample_models").glob("*.onnx"))
MISSING = "agraph (float[2] x) => (float[2] y) { a = Relu (x) y = %s (a) }"


def unimported() -> ModelProto:
    model = parse(MISSING % "ai.onnx.ml.Normalizer")
    del model.opset_import[1:]
    return model


def with_function() -> ModelProto:
    model = parse(MISSING % "own.twice")
    body = [helper.make_node("Add", ["a", "a"], ["b"]), helper.make_node("own.none", ["b"], ["c"])]
    model.functions.append(
        helper.make_function("own", "twice", ["a"], ["c"], body, model.opset_import)
    )
    return model


def causes(
    model: ModelProto, folder: Path, target: str = "onnxruntime-cpu"
) -> dict[str, list[tuple[int, str]]]:
    onnx.save(model, folder / "in.onnx")
    result = precheck(folder / "in.onnx", target)
    assert result["total"] == len(result["op"]) == result["pass"] + result["fail"]
    found = {
        entry["name"]: [(cause["code"], cause["message"]) for cause in entry.get("cause", [])]
        for entry in result["op"]
    }
    assert result["fail"] == sum(map(bool, found.values()))
    assert {entry["name"] for entry in result["op"] if entry["result"] == "failed"} == {
        n for n, c in found.items() if c
    }
    if result["fail"]:
        assert result["result"] == "failed"
    return found


@pytest.mark.parametrize("path", SAMPLES, ids=lambda p: p.stem)
@pytest.mark.parametrize("target", ["onnxruntime-cpu", "onnx"])
def test_samples_run_everywhere(path: Path, target: str) -> None:
    result = precheck(path, target)
    assert (result["result"], result["fail"]) == ("success", 0) and "cause" not in result
    assert result["total"] == len(result["op"]) > 5


@pytest.mark.parametrize(
    ("graph", "target", "name", "code", "message"),
    [
        (MISSING % "NoSuch", "onnx", "NoSuch:y", 1, "NoSuch is not an operator of version 18 of the standard"),
        (MISSING % "NoSuch", "onnxruntime-cpu", "NoSuch:y", 1, "NoSuch is not an operator of version 18"),
        (MISSING % "Gelu", "onnxruntime-cpu", "Gelu:y", 1, "Gelu is not an operator of version 18"),
        (MISSING % "own.op", "onnxruntime-cpu", "op:y", 1, "own.op is not an operator of version 1 of own"),
        (MISSING % "com.microsoft.Gelu", "onnx", "Gelu:y", 1, "com.microsoft.Gelu is not an operator of version 1"),
        (unimported, "onnx", "Normalizer:y", 2, "the model does not say which version of ai.onnx.ml it uses"),
        (
            "agraph (bool[2] x) => (bool[2] y) { a = Not (x) y = Add (a, a) }",
            "onnxruntime-cpu", "Add:y", 2, "onnxruntime has no CPU kernel of Add for inputs of the types bool, bool",
        ),
        (
            "agraph (bfloat16[2] x) => (bfloat16[2] y) { a = Identity (x) y = Add (a, a) }",
            "onnxruntime-cpu", "Add:y", 2,
            "onnxruntime has no CPU kernel of Add for inputs of the types bfloat16, bfloat16",
        ),
        (with_function, "onnx", "own.none:c", 1, "own.none is not an operator of version 18"),
    ],
)  # fmt: skip
def test_what_fails(
    graph: str | Callable[[], ModelProto],
    target: str,
    name: str,
    code: int,
    message: str,
    tmp_path: Path,
) -> None:
    model = parse(graph)
    found = {
        entry: reasons for entry, reasons in causes(model, tmp_path, target).items() if reasons
    }
    assert list(found) == [name]
    ((given, reason),) = found[name]
    assert given == code and reason.startswith(message)
    if target != "onnx":  # onnxruntime agrees
        with pytest.raises(Exception, match=r"(?i)fail|not_implemented|invalid|error"):
            onnxruntime.InferenceSession(
                model.SerializeToString(), providers=["CPUExecutionProvider"]
            )


@pytest.mark.parametrize(
    "text",
    [
        MISSING % "com.microsoft.Gelu",
        "agraph (float16[2] x) => (float16[2] y) { y = Add (x, x) }",  # computed in float32
        (
            "agraph (float[2] x) => (float[2] y) { c = Constant <value_float = 2.0> () y = Mul "
            "(x, c) }"
        ),
        "agraph (float[2] x) => (float[2] y) { y = HardSwish (x) }",
        "agraph (seq(float[2]) x, int64 n) => (float[2] y) { y = SequenceAt (x, n) }",
        # what onnx has no operator of, or something against, and onnxruntime loads
        (
            "agraph (float[N,4] x) => (float[N,4] y) <float[4] s = {1,2,3,4}> { y = "
            "SimplifiedLayerNormalization (x, s) }"
        ),
        "agraph (float[2] x) => (float[3] y) { y = Relu (x) }",
    ],
)
def test_what_passes(text: str, tmp_path: Path) -> None:
    model = parse(text)
    assert not any(causes(model, tmp_path).values())
    result = precheck(tmp_path / "in.onnx", "onnxruntime-cpu")
    assert result["result"] == "success" and "cause" not in result
    onnxruntime.InferenceSession(model.SerializeToString(), providers=["CPUExecutionProvider"])


def test_what_the_checker_has_against_the_whole(tmp_path: Path) -> None:
    model = parse("agraph (float[2] x) => (float[3] y) { y = Relu (x) }")
    onnx.save(model, tmp_path / "in.onnx")
    result = precheck(tmp_path / "in.onnx", "onnx")
    assert (result["result"], result["fail"], len(result["cause"])) == ("failed", 0, 1)
    assert "(2) vs (3)" in result["cause"][0]["message"]


SHADOWING = """agraph (float[2] x, bool c) => (float[2] y) {
    [same] a = Relu (x)
    b = If (c) <then_branch = t () => (float[2] p) { [other] p = Neg (x) },
                else_branch = e () => (float[2] q) { [same] q = Neg (x) }>
    [same] d = Abs (b)
    [last] y = Add (a, d) }"""


@pytest.mark.parametrize(
    ("text", "failed", "message"),
    [
        (SHADOWING, {"same"}, "two nodes with same node name (same)"),
        (
            (
                "agraph (float[2,3] x) => (float[2,2] y) { [first] a = Relu (x) [second] y = "
                "MatMul (a, x) }"
            ),
            {"second"},
            "Incompatible dimensions for matrix multiplication",
        ),
        (
            "agraph (float[2,3] x) => (float[2,2] y) { a = Relu (x) y = MatMul (a, x) }",
            set(),
            "Incompatible dim",
        ),
    ],
)
def test_what_onnxruntime_cannot_load_fails(
    text: str, failed: set[str], message: str, tmp_path: Path
) -> None:
    onnx.save(parse(text), tmp_path / "in.onnx")
    result = precheck(tmp_path / "in.onnx", "onnxruntime-cpu")
    assert {entry["name"] for entry in result["op"] if entry["result"] == "failed"} == failed
    assert result["result"] == "failed" and message in result["cause"][0]["message"]
    assert "ONNXRuntimeError" not in result["cause"][0]["message"]
