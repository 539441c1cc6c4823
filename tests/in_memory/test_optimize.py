"""`fusionc.optimize`: the model that `convert` writes, of the kind that was given, and nothing on
the disk.
"""

from __future__ import annotations

import os
import sys
import tempfile
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any

import numpy as np
import onnx
import onnxruntime
import pytest
from harness import parse
from onnx import parser

import fusionc
from fusionc.errors import UsageError
from fusionc.in_memory import temporary_files

SAMPLES = Path(__file__).parents[2] / "sample_models"
PASS = """
import fusionc
from fusionc import op

fusionc.register_replacement(lambda x: op.{0}(op.{0}(x)), lambda x: op.{0}(x), name="Twice{0}")
"""


@pytest.fixture(autouse=True)
def empty(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The current folder; so are the one of temporary files, which must be empty in the end, and
    that of logs.
    """
    for name in ("here", "temporary"):
        (tmp_path / name).mkdir()
    monkeypatch.chdir(tmp_path / "here")
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path / "temporary"))
    monkeypatch.setenv("FUSIONC_PROCESS_LOG_PATH", str(tmp_path / "log"))
    return tmp_path / "here"


def converted(model: Path, folder: Path, **options: Any) -> bytes:
    fusionc.convert(model, output=folder / "out.onnx", log="null", **options)
    return (folder / "out.onnx").read_bytes()


def is_clean(here: Path) -> bool:
    return (
        not list(here.iterdir()) + list((here.parent / "temporary").iterdir())
        and not (here.parent / "log").exists()
    )


def small_model() -> onnx.ModelProto:
    """A matrix of 4 KiB, two rectifiers of which one goes, and a pair of values that is folded."""
    model = parser.parse_model(
        '<ir_version: 9, opset_import: ["" : 17]> g (float[n,32] x) => (float[n,32] y)'
        "{ a = MatMul(x, w)  b = Relu(a)  c = Relu(b)  two = Add(one, one)  y = Mul(c, two) }"
    )
    weights = np.arange(1024, dtype=np.float32).reshape(32, 32) / 1024
    for name, array in (("w", weights), ("one", np.ones(1, np.float32))):
        model.graph.initializer.append(onnx.numpy_helper.from_array(array, name))
    return model


@pytest.mark.parametrize("name", sorted(path.name for path in SAMPLES.glob("*.onnx")))
def test_the_bytes_are_those_of_the_command(name: str, tmp_path: Path, empty: Path) -> None:
    expected = converted(SAMPLES / name, tmp_path, verify=False)
    model = onnx.load(SAMPLES / name)
    before = model.SerializeToString()
    result, report = fusionc.optimize(model, verify=False)
    assert result.SerializeToString() == expected and model.SerializeToString() == before
    assert fusionc.optimize(before, verify=False)[0] == expected
    assert fusionc.optimize(SAMPLES / name, verify=False)[0].SerializeToString() == expected
    assert (
        report.nodes_after < report.nodes_before
        and report.output is report.model is report.log_file is None
    )
    assert is_clean(empty)


def test_the_result_is_verified_and_the_names_stay(empty: Path) -> None:
    result, report = fusionc.optimize(small_model())
    assert report.verification == "equal in 7 runs"
    assert [node.op_type for node in result.graph.node] == ["FusedGemm", "Mul"]
    assert [value.name for value in (*result.graph.input, *result.graph.output)] == ["x", "y"]
    assert is_clean(empty)


def test_what_one_message_of_protobuf_cannot_hold(
    monkeypatch: pytest.MonkeyPatch, empty: Path
) -> None:
    expected = fusionc.optimize(small_model(), verify=False)[0].SerializeToString()
    monkeypatch.setattr(temporary_files, "LIMIT", 2000)
    assert fusionc.optimize(small_model(), verify=False)[0].SerializeToString() == expected
    assert is_clean(empty)


def test_weights_in_files_stay_there(tmp_path: Path, empty: Path) -> None:
    onnx.save(
        small_model(),
        tmp_path / "m.onnx",
        save_as_external_data=True,
        location="m.data",
        size_threshold=1000,
    )
    expected = converted(tmp_path / "m.onnx", tmp_path, verify=False)
    model = onnx.load(tmp_path / "m.onnx", load_external_data=False)
    result, _ = fusionc.optimize(model, base_dir=tmp_path, verify=False)
    assert result.SerializeToString() == expected and b"m.data" in expected
    inline, _ = fusionc.optimize(model, base_dir=tmp_path, verify=False, external_weight=0)
    assert {t.data_location for t in inline.graph.initializer} == {onnx.TensorProto.DEFAULT}
    loaded, _ = fusionc.optimize(tmp_path / "m.onnx", verify=False)
    assert loaded.SerializeToString() == inline.SerializeToString()
    with pytest.raises(fusionc.FusioncError, match="external data does not exist") as caught:
        fusionc.optimize(model)
    assert (
        caught.value.hint
        == "load the model with its external data, or give the path of the model, or give the folder of the "
        "external data as "
        "base_dir of fusionc.optimize"
    )
    assert is_clean(empty)


def test_weights_without_elements_in_files(tmp_path: Path, empty: Path) -> None:
    model = small_model()
    model.graph.initializer.insert(
        0, onnx.numpy_helper.from_array(np.zeros((0, 4), np.float32), "none")
    )
    model.graph.node.append(onnx.helper.make_node("Relu", ["none"], ["z"]))
    model.graph.output.append(
        onnx.helper.make_tensor_value_info("z", onnx.TensorProto.FLOAT, [0, 4])
    )
    onnx.save(
        model, tmp_path / "m.onnx", save_as_external_data=True, location="m.data", size_threshold=0
    )
    model = onnx.load(tmp_path / "m.onnx", load_external_data=False)
    model.graph.initializer.reverse()  # so that it has another place than the first one
    _, report = fusionc.optimize(model, base_dir=tmp_path)
    assert report.verification and report.verification.startswith("equal") and is_clean(empty)


def test_an_output_is_written_as_well(empty: Path, tmp_path: Path) -> None:
    onnx.save(
        small_model(),
        tmp_path / "m.onnx",
        save_as_external_data=True,
        location="m.data",
        size_threshold=1000,
    )
    model = onnx.load(tmp_path / "m.onnx", load_external_data=False)
    result, report = fusionc.optimize(model, base_dir=tmp_path, output="out.onnx", log="info")
    assert report.output == Path("out.onnx") and report.log_file is not None
    assert onnx.load("out.onnx").graph.node == result.graph.node
    assert [path.name.split(".")[-1] for path in sorted(empty.iterdir())] == ["onnx", "data"]
    with pytest.raises(fusionc.UsageError, match="without an output file"):
        fusionc.optimize(model, external_weight=1)


@pytest.mark.usefixtures("needs_a_compiler")
def test_kernels_of_the_users_cache(empty: Path) -> None:
    model = parser.parse_model(
        '<ir_version: 9, opset_import: ["" : 17]> g (float[64,1024] x) => (float[64,1024] y)'
        "{ a = Exp(x)  b = Mul(a, x)  c = Sin(b)  y = Add(c, x) }"
    )
    result, report = fusionc.optimize(model, enable_graph_kernel=True)
    options = onnxruntime.SessionOptions()
    options.register_custom_ops_library(str(report.kernels))
    feeds = {"x": np.ones((64, 1024), np.float32)}
    [found], [expected] = (
        onnxruntime.InferenceSession(
            m.SerializeToString(), o, providers=["CPUExecutionProvider"]
        ).run(None, feeds)
        for m, o in ((result, options), (model, None))
    )
    assert np.allclose(found, expected) and is_clean(empty)


@pytest.mark.parametrize(
    "given", [b"", b"no model", onnx.ModelProto(), onnx.ModelProto(ir_version=9)]
)
def test_what_is_no_model_is_an_error_that_names_no_temporary_file(given: Any, empty: Path) -> None:
    with pytest.raises(fusionc.FusioncError) as caught:
        fusionc.optimize(given)
    assert "temporary" not in str(caught.value) and is_clean(empty)


def test_what_is_no_kind_of_model() -> None:
    with pytest.raises(fusionc.UsageError, match="not a model: builtins"):
        fusionc.optimize(3)


def test_a_wrong_option_is_an_error_that_names_no_temporary_file(empty: Path) -> None:
    with pytest.raises(fusionc.UsageError, match="no input z"):
        fusionc.optimize(small_model(), input_shape={"z": (1, 32)})
    broken = small_model()
    broken.graph.node[0].input[1] = "missing"
    with pytest.raises(fusionc.FusioncError) as caught:
        fusionc.optimize(broken)
    assert "temporary" not in f"{caught.value}{caught.value.args}" and is_clean(empty)
    with pytest.raises(TypeError, match="no_such_option"):
        fusionc.optimize(small_model(), no_such_option=1)


def test_no_place_for_temporary_files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path / "missing"))
    with pytest.raises(fusionc.FusioncError, match="cannot be written") as caught:
        fusionc.optimize(small_model())
    assert caught.value.where == str(tmp_path / "missing") and "TMPDIR" in caught.value.hint


def test_ten_threads(tmp_path: Path, empty: Path) -> None:
    """They see neither each other's passes nor each other's options."""
    files = {name: tmp_path / f"{name}.py" for name in ("Relu", "Abs")}
    for name, file in files.items():
        file.write_text(PASS.format(name))
    options: list[dict[str, Any]] = [
        {"verify": True},
        {"target": "onnx"},
        {"oo_level": "O1"},
        {"optimization_switch": "IdempotentOpPass:off;ClipFusionPass:off"},
        {
            "optimization_switch": "IdempotentOpPass:off;ClipFusionPass:off",
            "custom_passes": [files["Relu"]],
        },
        {
            "optimization_switch": "IdempotentOpPass:off;ClipFusionPass:off",
            "custom_passes": [files["Abs"]],
        },
        {"input_shape": {"x": (4, 32)}},
        {"out_nodes": "b"},
        {"oo_constant_folding": False},
        {"timeout": 60.0},
    ]
    model = small_model()
    before = model.SerializeToString()

    def run(given: dict[str, Any]) -> tuple[bytes, list[str]]:
        result, report = fusionc.optimize(model, **{"verify": False, **given})
        return result.SerializeToString(), [
            total.name for total in report.passes() if total.matched
        ]

    expected = [run(given) for given in options]
    with ThreadPoolExecutor(10) as threads:
        assert list(threads.map(run, options)) == expected
    assert "TwiceRelu" in expected[4][1] and "TwiceRelu" not in expected[3][1] + expected[5][1]
    assert model.SerializeToString() == before and is_clean(empty)


class _Ir(ModuleType):
    """What is called of onnx_ir, where that is not installed: a model, and the ways there and
    back.
    """

    def __init__(self) -> None:
        super().__init__("onnx_ir")
        self.Model = type("Model", (SimpleNamespace,), {"__module__": "onnx_ir"})

    def to_proto(self, model: Any) -> onnx.ModelProto:
        return model.proto

    def from_proto(self, proto: onnx.ModelProto) -> Any:
        return self.Model(proto=proto, graph=_IrGraph(proto.graph), functions={})


class _IrGraph:
    """Its nodes, and of its initializers those in files."""

    def __init__(self, graph: onnx.GraphProto) -> None:
        self._nodes = [
            SimpleNamespace(
                attributes={a.name: SimpleNamespace(value=_IrGraph(a.g)) for a in node.attribute}
            )
            for node in graph.node
        ]
        self.initializers = {
            tensor.name: SimpleNamespace(
                const_value=SimpleNamespace(
                    name=tensor.name, location=tensor.external_data[0].value, base_dir=""
                )
            )
            for tensor in graph.initializer
            if tensor.external_data
        }

    def __iter__(self) -> Iterator[Any]:
        return iter(self._nodes)


def test_a_model_of_onnx_ir_and_a_program_of_torch(
    monkeypatch: pytest.MonkeyPatch, empty: Path
) -> None:
    """With stand-ins for both packages, of which none is needed."""
    ir = _Ir()
    monkeypatch.setitem(sys.modules, "onnx_ir", ir)
    program_class = type("ONNXProgram", (SimpleNamespace,), {"__module__": "torch.onnx._internal"})
    model = ir.from_proto(small_model())
    expected = fusionc.optimize(small_model(), verify=False)[0]
    result, _ = fusionc.optimize(model, verify=False)
    assert type(result) is ir.Model and result.proto == expected
    program = program_class(
        model=model, model_proto=None, exported_program="what torch has", _inference_session=1
    )
    made, _ = fusionc.optimize(program, verify=False)
    assert type(made) is program_class and made.model.proto == expected and program.model is model
    assert made.exported_program == "what torch has" and made._inference_session is None
    graph = type("Graph", (SimpleNamespace,), {"__module__": "onnx_ir"})()
    with pytest.raises(UsageError, match=r"this is not a model: onnx_ir.*Graph"):
        fusionc.optimize(graph)
    assert is_clean(empty)


def chosen_weights() -> onnx.ModelProto:
    """Weights in a branch, and others outside of it."""
    model = parser.parse_model(
        '<ir_version: 9, opset_import: ["" : 17]> g (float[2,32] x, bool c) => (float[2,32] y) {'
        " y = If (c) <then_branch = t () => (float[2,32] u) { u = MatMul (x, v) },"
        " else_branch = e () => (float[2,32] z) { z = MatMul (x, w) }> }"
    )
    weights = np.arange(1024, dtype=np.float32).reshape(32, 32)
    branch = next(a.g for a in model.graph.node[0].attribute if a.name == "then_branch")
    for graph, name in ((model.graph, "w"), (branch, "v")):
        graph.initializer.append(onnx.numpy_helper.from_array(weights, name))
    return model


def in_branch(model: Any) -> Any:
    """The tensor of a model of onnx_ir that lies in the first branch with one."""
    graphs = (attribute.value for node in model.graph for attribute in node.attributes.values())
    return next(value.const_value for graph in graphs for value in graph.initializers.values())


def test_weights_in_branches_of_a_model_of_onnx_ir(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """They lie in the folder of the model, not in the current one, where another file may have
    their name.
    """
    ir = _Ir()
    monkeypatch.setitem(sys.modules, "onnx_ir", ir)
    onnx.save(
        chosen_weights(),
        tmp_path / "m.onnx",
        save_as_external_data=True,
        location="m.data",
        size_threshold=0,
    )
    model = ir.from_proto(onnx.load(tmp_path / "m.onnx", load_external_data=False))
    for tensor in (in_branch(model), model.graph.initializers["w"].const_value):
        tensor.base_dir = os.fspath(tmp_path)
    result, _ = fusionc.optimize(model)
    assert in_branch(result).base_dir == os.fspath(tmp_path)


def test_weights_in_branches_of_a_model_of_the_real_onnx_ir(tmp_path: Path, empty: Path) -> None:
    ir = pytest.importorskip("onnx_ir", reason="onnx-ir is not installed: pip install onnx-ir")
    onnx.save(
        chosen_weights(),
        tmp_path / "m.onnx",
        save_as_external_data=True,
        location="m.data",
        size_threshold=0,
    )
    result, _ = fusionc.optimize(ir.load(tmp_path / "m.onnx"))
    assert in_branch(result).numpy().shape == (32, 32)


def test_a_model_of_the_real_onnx_ir(tmp_path: Path, empty: Path) -> None:
    ir = pytest.importorskip("onnx_ir", reason="onnx-ir is not installed: pip install onnx-ir")
    expected = fusionc.optimize(small_model(), verify=False)[0]
    result, _ = fusionc.optimize(ir.from_proto(small_model()), verify=False)
    assert [n.op_type for n in ir.to_proto(result).graph.node] == [
        n.op_type for n in expected.graph.node
    ]
    onnx.save(
        small_model(),
        tmp_path / "m.onnx",
        save_as_external_data=True,
        location="m.data",
        size_threshold=1000,
    )
    external, _ = fusionc.optimize(ir.load(tmp_path / "m.onnx"), verify=False)
    weights = external.graph.initializers["w"].const_value
    assert os.fspath(weights.location) == "m.data" and weights.numpy().shape == (32, 32)


def test_an_unknown_option_is_one_of_optimize() -> None:
    with pytest.raises(
        TypeError, match=r"^optimize\(\) .* 'target_opste'; did you mean \"target_opset\"\?$"
    ):
        fusionc.optimize(small_model(), target_opste=20)


def test_a_folder_that_is_not_there_is_said_to_be_so() -> None:
    with pytest.raises(fusionc.UsageError, match="base_dir is not an existing folder"):
        fusionc.optimize(small_model(), base_dir="nope")


def test_errors_name_arguments_and_not_options(tmp_path: Path) -> None:
    path = tmp_path / "m.onnx"
    onnx.save(parse("agraph (float[N,4] x) => (float[N,4] y) { y = Exp (x) }"), path)
    with pytest.raises(fusionc.UsageError, match="output names the model itself") as caught:
        fusionc.optimize(path, output=path)
    assert caught.value.hint == "give another name with output"
    with pytest.raises(fusionc.UsageError, match="no input q") as caught:
        fusionc.optimize(path, input_shape={"q": (1, 4)})
    assert caught.value.where == "input_shape"
