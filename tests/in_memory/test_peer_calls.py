"""`fusionc.simplify` and `fusionc.slim` in the place of onnxsim's and onnxslim's."""

from __future__ import annotations

import inspect
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import parser
from peer_signatures import ONNXSLIM_SLIM, onnxsim_simplify

import fusionc
from fusionc.errors import VerificationError
from fusionc.in_memory import onnxsim_call
from fusionc.in_memory.peer_names import ONNXSIM, ONNXSLIM_PATTERNS
from fusionc.passes import PASSES


@pytest.fixture(autouse=True)
def _in_a_folder_of_its_own(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


def model() -> onnx.ModelProto:
    """A convolution with its normalization, a sum of constants, two equal nodes, one output that
    nobody wants.
    """
    made = parser.parse_model(
        '<ir_version: 9, opset_import: ["" : 17]>'
        " g (float[n,2,h,8] x) => (float[n,2,h,8] y, float[n,2,h,8] aside) {"
        " c = Conv<pads=[1,1,1,1]>(x, w)  b = BatchNormalization(c, s, s, s, s)  two = Add(s, s) "
        " e = Exp(b) f = Exp(b)"
        " g1 = Add(e, f)  d = Reshape(two, sizes)  y = Mul(g1, d)  aside = Neg(x) }"
    )
    arrays = {
        "w": np.ones((2, 2, 3, 3), np.float32) / 9,
        "s": np.ones(2, np.float32),
        "sizes": np.array([1, 2, 1, 1]),
    }
    made.graph.initializer.extend(
        onnx.numpy_helper.from_array(array, name) for name, array in arrays.items()
    )
    return made


def operators(made: onnx.ModelProto | None) -> list[str]:
    assert made is not None
    return sorted(node.op_type for node in made.graph.node)


SHORT = ["Add", "Conv", "Exp", "Mul", "Neg"]
WITH_NORMALIZATION = ["Add", "BatchNormalization", "Conv", "Exp", "Mul", "Neg"]


def test_the_calls_of_exporters() -> None:
    given = model()
    before = given.SerializeToString()
    simplified, is_right = fusionc.simplify(given)
    slimmed = fusionc.slim(given)
    assert is_right is True and operators(simplified) == operators(slimmed) == SHORT
    assert given.SerializeToString() == before and not list(Path().iterdir())
    onnx.save(given, "m.onnx")
    assert fusionc.simplify("m.onnx") == (simplified, True) and fusionc.slim("m.onnx") == slimmed


@pytest.mark.parametrize(
    ("arguments", "expected"),
    [
        ({"skip_fuse_bn": True}, WITH_NORMALIZATION),
        ({"skipped_optimizers": ["fuse_bn_into_conv", "nop"]}, WITH_NORMALIZATION),
        ({"skipped_optimizers": ["eliminate_common_subexpression"]}, sorted([*SHORT, "Exp"])),
        ({"skip_constant_folding": True}, sorted([*SHORT, "Add", "Reshape"])),
        ({"perform_optimization": False}, sorted([*WITH_NORMALIZATION, "Exp"])),
        ({"unused_output": ["aside"]}, SHORT[:-1]),
        (
            {
                "input_data": {"x": np.ones((1, 2, 3, 8), np.float32)},
                "check_n": 3,
                "certify": False,
            },
            SHORT,
        ),
        ({"test_input_shapes": {None: [1, 2, 5, 8]}, "target_opset_version": 18}, SHORT),
    ],
)
def test_arguments_of_onnxsim(arguments: dict[str, Any], expected: list[str]) -> None:
    simplified, is_right = fusionc.simplify(model(), **arguments)
    assert operators(simplified) == expected and is_right


@pytest.mark.parametrize(
    ("arguments", "expected"),
    [
        ({"skip_fusion_patterns": ["FusionConvBN"]}, WITH_NORMALIZATION),
        ({"skip_optimizations": ["subexpression_elimination"]}, sorted([*SHORT, "Exp"])),
        ({"skip_optimizations": ["graph_fusion"]}, WITH_NORMALIZATION),
        ({"skip_optimizations": ["constant_folding"]}, sorted([*SHORT, "Add", "Reshape"])),
        ({"outputs": ["y"], "model_check": True}, SHORT[:-1]),
        ({"outputs": ["y:fp16"]}, sorted([*SHORT[:-1], "Cast"])),
        ({"outputs": ["y:bool"]}, sorted([*SHORT[:-1], "Cast"])),
    ],
)
def test_arguments_of_onnxslim(arguments: dict[str, Any], expected: list[str]) -> None:
    assert operators(fusionc.slim(model(), **arguments)) == expected


@pytest.mark.parametrize(
    ("skipped", "expected"),
    [
        ([], ["Exp", "Not"]),
        (["dead_node_elimination"], ["Exp", "Identity", "Mul", "Not"]),
        (["graph_fusion"], ["Exp", "Not"]),
        (["graph_fusion", "dead_node_elimination"], ["Exp", "Identity", "Mul", "Not"]),
    ],
)
def test_what_onnxslim_calls_dead_nodes(skipped: list[str], expected: list[str]) -> None:
    made = parser.parse_model(
        '<ir_version: 9, opset_import: ["" : 17]>'
        " g (float[n,4] x, bool[n,4] c) => (bool[n,4] y, float[n,4] z)"
        " <float one = {1}> { d = Identity (c) y = Not (d)  e = Mul (x, one) z = Exp (e) }"
    )
    slimmed = fusionc.slim(made, outputs=["y:bool", "z"], skip_optimizations=skipped)
    assert operators(slimmed) == expected


@pytest.mark.parametrize("is_file", [False, True])
def test_initializers_that_are_inputs_are_constants_unless_they_may_change(is_file: bool) -> None:
    given = model()
    given.graph.input.append(onnx.helper.make_tensor_value_info("s", onnx.TensorProto.FLOAT, [2]))
    # which changes what is saved
    onnx.save(given, "m.onnx", save_as_external_data=True, size_threshold=0)
    given.CopyFrom(onnx.load("m.onnx"))
    before = given.SerializeToString()
    for is_mutable, inputs in ((False, ["x"]), (True, ["x", "s"])):
        simplified, is_right = fusionc.simplify(
            "m.onnx" if is_file else given, mutable_initializer=is_mutable
        )
        assert is_right and [value.name for value in simplified.graph.input] == inputs
        assert (operators(simplified) == SHORT) is not is_mutable
        assert not any(tensor.external_data for tensor in simplified.graph.initializer)
    assert is_file or given.SerializeToString() == before


def test_sizes_are_fixed() -> None:
    simplified, _ = fusionc.simplify(model(), overwrite_input_shapes={None: [1, -1, 4, 8]})
    for made in (
        simplified,
        fusionc.slim(model(), input_shapes=["x:1,2,4,8"]),
        fusionc.slim(model(), input_shapes={"x": [1, 2, 4, 8]}),
    ):
        assert made is not None and [
            dim.dim_value for dim in made.graph.input[0].type.tensor_type.shape.dim
        ] == [
            1,
            2,
            4,
            8,
        ]


def test_slim_writes_and_shows(capsys: pytest.CaptureFixture[str]) -> None:
    np.save("x.npy", np.ones((1, 2, 3, 8), np.float32))
    onnx.save(model(), "m.onnx")
    found = fusionc.slim(
        "m.onnx",
        "out.onnx",
        model_check=True,
        model_check_inputs=["x:x.npy"],
        save_as_external_data=True,
    )
    text = capsys.readouterr().out
    assert found is None and "verification  equal in 8 runs" in text and text.count("\n") < 6
    assert operators(onnx.load("out.onnx")) == SHORT
    fusionc.slim(model(), verbose=True)
    assert "verifying" in capsys.readouterr().out


def test_what_has_no_right_result_comes_back_as_it_was(monkeypatch: pytest.MonkeyPatch) -> None:
    def differs(*_: Any, **__: Any) -> None:
        raise VerificationError("different")

    monkeypatch.setattr(onnxsim_call, "optimize", differs)
    given = model()
    with pytest.warns(UserWarning, match="different"):
        found, is_right = fusionc.simplify(given)
    assert found is given and is_right is False


def test_a_check_that_cannot_be_made_is_no_success() -> None:
    given = parser.parse_model(
        '<ir_version: 9, opset_import: ["own" : 1]> g (float[2] x) => (float[2] y) { y = own.F(x) }'
    )
    assert fusionc.simplify(given)[1] is True and fusionc.simplify(given, check_n=1)[1] is False


def test_errors_name_the_argument_of_the_call() -> None:
    for argument, value in {
        "unused_output": ["z"],
        "overwrite_input_shapes": {"z": [1]},
        "input_shapes": {"z": [1]},
        "test_input_shapes": {"z": [1]},
    }.items():
        with pytest.raises(fusionc.UsageError) as caught:
            fusionc.simplify(model(), **{argument: value})
        assert caught.value.where == argument


@pytest.mark.parametrize(
    ("call", "arguments", "what"),
    [
        ("simplify", {"tensor_size_threshold": "1KB"}, "tensor_size_threshold"),
        ("simplify", {"initializers_as_constants": False}, "initializers_as_constants"),
        ("simplify", {"inline_functions": True}, "inline_functions"),
        ("simplify", {"custom_rewriter": print}, "custom_rewriter"),
        ("simplify", {"check_rtol": 0.1}, "check_rtol"),
        ("simplify", {"providers": ["CUDAExecutionProvider"]}, "on the CPU only"),
        ("simplify", {"skipped_optimizers": ["fuse_bn"]}, "no fuse_bn"),
        ("simplify", {"unused_output": ["z"]}, "no output z"),
        ("simplify", {"overwrite_input_shapes": {"z": [1]}}, "no input z"),
        ("slim", {"dtype": "fp16"}, "dtype"),
        ("slim", {"inputs": ["c"]}, "inputs"),
        ("slim", {"outputs": ["y:fp8"]}, "fp8"),
        ("slim", {"skip_optimizations": ["folding"]}, "no folding"),
        ("slim", {"skip_fusion_patterns": ["FusionX"]}, "no FusionX"),
        ("slim", {"input_shapes": ["x:1,a"]}, "x:1,a"),
    ],
)
def test_what_cannot_be_meant_is_refused(call: str, arguments: dict[str, Any], what: str) -> None:
    with pytest.raises(fusionc.UsageError, match=what) as caught:
        getattr(fusionc, call)(model(), **arguments)
    assert caught.value.hint


def test_an_input_may_be_called_as_an_argument_of_numpy() -> None:
    made = parser.parse_model(
        '<ir_version: 9, opset_import: ["" : 17]>'
        " g (float[2] file, float[2] allow_pickle) => (float[2] y)"
        " { y = Add(file, allow_pickle) }"
    )
    two = np.ones(2, np.float32)
    _, is_right = fusionc.simplify(made, input_data={"file": two, "allow_pickle": two})
    np.save("file.npy", two)
    slimmed = fusionc.slim(
        made, model_check=True, model_check_inputs=["file:file.npy", "allow_pickle:file.npy"]
    )
    assert is_right and operators(slimmed) == ["Add"]


@pytest.mark.parametrize(
    "value", [np.array([1, 2], object), np.array(["a", "b"], object), [[1], [2, 3]]]
)
def test_values_that_are_no_arrays_of_numbers_or_text(value: Any) -> None:
    with pytest.raises(fusionc.UsageError, match="the value of x is not an array") as caught:
        fusionc.simplify(model(), input_data={"x": value})
    assert "numpy array" in (caught.value.hint or "") and not list(Path().iterdir())


def test_text_is_taken() -> None:
    made = parser.parse_model(
        '<ir_version: 9, opset_import: ["" : 17]>'
        " g (string[2] x) => (string[2] y) { a = Identity(x) y = Identity(a) }"
    )
    _, is_right = fusionc.simplify(made, input_data={"x": np.array(["a", "b"])}, check_n=1)
    assert is_right


@pytest.mark.parametrize("call", [fusionc.simplify, fusionc.slim])
def test_files_that_are_no_models(call: Any) -> None:
    with pytest.raises(fusionc.UsageError, match="does not exist"):
        call("no.onnx")
    Path("damaged.onnx").write_bytes(b"no model")
    with pytest.raises(fusionc.FusioncError, match="not an ONNX model"):
        call("damaged.onnx")


def test_files_that_are_no_arrays() -> None:
    with pytest.raises(fusionc.UsageError, match=r"No such file(.|\n)*no\.npy"):
        fusionc.slim(model(), model_check=True, model_check_inputs=["x:no.npy"])


def test_a_list_of_models_is_refused() -> None:
    with pytest.raises(fusionc.UsageError, match="one model"):
        fusionc.slim([model(), model()])
    two_inputs = parser.parse_model(
        '<ir_version: 9, opset_import: ["" : 17]>'
        " g (float[n] a, float[n] b) => (float[n] y) { y = Add(a, b) }"
    )
    with pytest.raises(fusionc.UsageError, match="one input"):
        fusionc.simplify(two_inputs, overwrite_input_shapes={None: [1]})


@pytest.mark.parametrize("call", [fusionc.simplify, fusionc.slim])
def test_what_is_neither_a_path_nor_a_proto_is_refused(call: Callable[..., Any]) -> None:
    for given, kind in (
        (model().SerializeToString(), "builtins.bytes"),
        (None, "builtins.NoneType"),
    ):
        with pytest.raises(
            fusionc.UsageError, match=f"takes a path or an onnx.ModelProto, not {kind}"
        ):
            call(given)


def test_the_names_of_passes_are_right() -> None:
    used = {
        name for table in (ONNXSIM, ONNXSLIM_PATTERNS) for names in table.values() for name in names
    }
    assert used <= {p.name for p in PASSES}


def parameters(call: Callable[..., Any]) -> list[tuple[Any, ...]]:
    return [
        (one.name, one.default, one.kind) for one in inspect.signature(call).parameters.values()
    ]


def test_the_signatures_are_those_of_the_peers() -> None:
    assert parameters(fusionc.simplify) == parameters(onnxsim_simplify)
    assert {name for name, *_ in parameters(fusionc.slim)} == {
        "model",
        "output_model",
    } | ONNXSLIM_SLIM


def test_the_recorded_signature_is_that_of_the_real_onnxsim() -> None:
    onnxsim = pytest.importorskip("onnxsim", reason="onnxsim is not installed: pip install onnxsim")
    assert parameters(onnxsim.simplify) == parameters(onnxsim_simplify)


def test_the_recorded_arguments_are_those_of_the_real_onnxslim() -> None:
    parser_of_peer = pytest.importorskip(
        "onnxslim.argparser", reason="onnxslim is not installed: pip install onnxslim"
    )
    assert parser_of_peer.OnnxSlimKwargs.__annotations__.keys() == ONNXSLIM_SLIM


@pytest.mark.parametrize(
    ("call", "name", "text"),
    [
        (fusionc.slim, "input_shapes", "x:1,2,8,8"),
        (fusionc.slim, "outputs", "y"),
        (fusionc.slim, "skip_fusion_patterns", "FusionGelu"),
        (fusionc.simplify, "unused_output", "aside"),
        (fusionc.simplify, "skipped_optimizers", "fuse_qkv"),
        (fusionc.slim, "outputs", [3]),
        (fusionc.slim, "input_shapes", [("x", 1)]),
        (fusionc.simplify, "overwrite_input_shapes", "x:1,2,8,8"),
        (fusionc.simplify, "input_data", [1]),
    ],
)
def test_one_text_is_no_list_of_texts(call: Callable[..., Any], name: str, text: object) -> None:
    with pytest.raises(fusionc.UsageError, match=re.escape(f"{name} is {text!r}, not a ")):
        call(model(), **{name: text})


@pytest.mark.parametrize("call", [fusionc.simplify, fusionc.slim])
def test_external_data_that_is_not_loaded_is_told_with_what_to_do(call: Callable[..., Any]) -> None:
    given = model()
    onnx.external_data_helper.convert_model_to_external_data(
        given, location="gone", size_threshold=0
    )
    onnx.save(given, "m.onnx")
    Path("gone").unlink()
    with pytest.raises(fusionc.FusioncError) as raised:
        call(onnx.load("m.onnx", load_external_data=False))
    assert raised.value.hint.startswith(
        "load the model with its external data, or give the path of the model, or"
    )
