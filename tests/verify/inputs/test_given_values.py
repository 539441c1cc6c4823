"""Values of inputs that users give: every form that is documented, and what is said of each
mistake.
"""

from __future__ import annotations

import os
import re
import tracemalloc
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import ml_dtypes
import numpy as np
import onnx
import pytest
from harness import parse
from onnx import numpy_helper

import fusionc
from fusionc.errors import UsageError
from fusionc.verify import Verification, verify
from fusionc.verify.inputs.given_values import GivenSample, GivenValues
from fusionc.verify.reference import MOST_KEPT

ROOT = Path(__file__).parents[3]
MODEL = parse(
    "agraph (float[N,3] x, int64[3] ids) => (float[N,3] y) { f = Cast <to = 1> (ids) y = Mul "
    "(x, "
    "f) }"
)
X = np.float32([[1, 2, 3]])
IDS = np.array([4, 5, 6])


def samples(path: Path, model: onnx.ModelProto = MODEL) -> list[GivenSample]:
    return list(GivenValues(path).reader(model)())


def protos(folder: Path, **values: Any) -> Path:
    """A test set of ONNX: input_0="x" is the value of that file, under no name."""
    folder.mkdir(parents=True, exist_ok=True)
    for name, value in values.items():
        proto = (
            value
            if isinstance(value, bytes)
            else numpy_helper.from_array(np.asarray(value)).SerializeToString()
        )
        (folder / f"{name}.pb").write_bytes(proto)
    return folder


def arrays(folder: Path, **values: Any) -> Path:
    folder.mkdir(parents=True, exist_ok=True)
    for name, value in values.items():
        np.save(folder / f"{name}.npy", value)
    return folder


def archive(path: Path, **values: Any) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    np.savez(path, **values)
    return path


def pipe(path: Path) -> Path:
    os.mkfifo(path)
    return path


def bomb(path: Path, name: str) -> Path:
    """An archive that says of an array that it takes 4 PB."""
    with zipfile.ZipFile(path, "w") as file:
        file.writestr(f"{name}.npy", b"")
        file.infolist()[0].file_size = 1 << 52
    return path


FORMS: dict[str, Callable[[Path], Path]] = {
    "an archive": lambda at: archive(at / "data.npz", x=X, ids=IDS),
    "arrays": lambda at: arrays(at / "data", x=X, ids=IDS),
    "a test set": lambda at: protos(at / "test_data_set_0", input_0=X, input_1=IDS),
}


@pytest.mark.parametrize("form", FORMS)
def test_one_sample(tmp_path: Path, form: str) -> None:
    path = FORMS[form](tmp_path)
    (sample,) = samples(path)
    assert sample.label == path.name and not sample.recorded
    assert sample.feeds["x"].tolist() == X.tolist() and sample.feeds["ids"].tolist() == IDS.tolist()


def test_numbers_of_another_byte_order_are_the_same_numbers(tmp_path: Path) -> None:
    (sample,) = samples(archive(tmp_path / "data.npz", x=X.astype(">f4"), ids=IDS.astype(">i8")))
    assert sample.feeds["x"].dtype == np.float32 and sample.feeds["x"].tolist() == X.tolist()
    assert sample.feeds["ids"].tolist() == IDS.tolist()


def test_several_samples_are_in_the_order_of_their_numbers(tmp_path: Path) -> None:
    for number in (10, 9, 1):
        protos(tmp_path / f"test_data_set_{number}", input_0=X * number, input_1=IDS)
    archive(tmp_path / "zz.npz", x=X, ids=IDS)
    arrays(tmp_path / "other", x=X, ids=IDS)
    (tmp_path / "model.onnx").touch()
    (tmp_path / "empty").mkdir()
    found = samples(tmp_path)
    assert [sample.label for sample in found] == [
        "other",
        *(f"test_data_set_{k}" for k in (1, 9, 10)),
        "zz.npz",
    ]
    assert found[3].feeds["x"].tolist() == (10 * X).tolist()


def test_outputs_are_recorded_by_number_or_by_name(tmp_path: Path) -> None:
    assert samples(protos(tmp_path / "a", input_0=X, input_1=IDS, output_0=X * IDS))[
        0
    ].recorded.keys() == {"y"}
    assert samples(archive(tmp_path / "b.npz", x=X, ids=IDS, y=X * IDS))[0].recorded.keys() == {"y"}


def test_names_in_a_test_set_beat_numbers(tmp_path: Path) -> None:
    named = {
        f"input_{k}": numpy_helper.from_array(value, name).SerializeToString()
        for k, (name, value) in enumerate({"ids": IDS, "x": X}.items())
    }
    (sample,) = samples(protos(tmp_path / "a", **named))
    assert sample.feeds["x"].dtype == np.float32 and sample.feeds["ids"].dtype == np.int64


@pytest.mark.parametrize(
    ("kind", "values"), [("bfloat16", np.ones(2, ml_dtypes.bfloat16)), ("string", ["a", "bc"])]
)
def test_types_that_files_of_numpy_do_not_know(tmp_path: Path, kind: str, values: Any) -> None:
    model = parse(f"agraph ({kind}[N] x) => ({kind}[N] y) {{ y = Identity(x) }}")
    path = archive(tmp_path / "data.npz", x=values)
    (sample,) = samples(path, model)
    assert sample.feeds["x"].tolist() == list(values)
    onnx.save(model, tmp_path / "a.onnx")
    assert (
        "1 of them on the given inputs"
        in verify(tmp_path / "a.onnx", tmp_path / "a.onnx", inputs=path).summary
    )


def test_sequences_and_optionals(tmp_path: Path) -> None:
    model = parse(
        "agraph (seq(float[N]) s, optional(float[N]) o) => (float[M] y, bool has) "
        "{ y = ConcatFromSequence <axis = 0> (s) has = OptionalHasElement (o) }"
    )
    sequence = numpy_helper.from_list([X[0], X[0]], "s").SerializeToString()
    nothing = onnx.OptionalProto(elem_type=onnx.OptionalProto.UNDEFINED).SerializeToString()
    something = numpy_helper.from_optional(X[0], "o").SerializeToString()
    protos(tmp_path / "inputs/1", input_0=sequence, input_1=nothing)
    protos(tmp_path / "inputs/2", input_0=sequence, input_1=something)
    protos(tmp_path / "inputs/3", input_0=sequence)
    assert [np.shape(sample.feeds.get("o")) for sample in samples(tmp_path / "inputs", model)] == [
        (),
        (3,),
        (),
    ]


def test_an_overridable_initializer_may_be_given(tmp_path: Path) -> None:
    model = parse("agraph (float[3] x, float[3] w) => (float[3] y) { y = Mul (x, w) }")
    model.graph.initializer.append(numpy_helper.from_array(X[0], "w"))
    assert samples(archive(tmp_path / "one.npz", x=X[0]), model)[0].feeds.keys() == {"x"}
    assert samples(archive(tmp_path / "two.npz", x=X[0], w=X[0]), model)[0].feeds.keys() == {
        "x",
        "w",
    }


MISTAKES: dict[str, tuple[Callable[[Path], Path], str, str, str]] = {
    "nothing there": (lambda at: at / "no.npz", "the inputs do not exist", "no.npz", "give a file or a folder"),
    "an empty folder": (lambda at: at, "there are no inputs", "", "a sample is an .npz file"),
    "another file": (
        lambda at: (arrays(at, x=X) / "x.npy").rename(at / "x.txt"),
        "this is not a file with inputs", "x.txt", "a sample is",
    ),
    "an input is missing": (
        lambda at: archive(at / "a.npz", x=X), "a value for the input ids is missing", "a.npz",
        "the model takes: x float[N, 3], ids int64[3]; give all of them",
    ),
    "no such input": (
        lambda at: archive(at / "a.npz", x=X, idx=IDS), "the model has no input idx", "a.npz", 'did you mean "ids"?',
    ),
    "no such input, nor one like it": (
        lambda at: arrays(at / "a", x=X, mask=IDS), "the model has no input mask", "mask.npy", "it takes: x float",
    ),
    "another type": (
        lambda at: archive(at / "a.npz", x=X.astype(float), ids=IDS),
        "the input x has type float32, and the file has float64", "a.npz", 'convert the array: array.astype("float32")',
    ),
    "another size": (
        lambda at: protos(at / "a", input_0=X[:, :2], input_1=IDS),
        "the input x has the shape [1, 2], which does not fit", "input_0.pb", "the model takes x float[N, 3]",
    ),
    "another rank": (
        lambda at: archive(at / "a.npz", x=X[0], ids=IDS),
        "the input x has the shape [3], which does not fit", "a.npz", "the model takes x float[N, 3]",
    ),
    "too many inputs": (
        lambda at: protos(at / "a", input_0=X, input_1=IDS, input_2=X), "the model has 2 inputs", "input_2.pb",
        "they are numbered from 0",
    ),
    "damaged": (
        lambda at: protos(at / "a", input_0=b"\xff\xff"), "the file cannot be read", "input_0.pb", "write it again",
    ),
    "pickled": (
        lambda at: archive(at / "a.npz", x=np.array([{}])),
        "the file cannot be read: it is not a file of numpy, or it has Python objects", "a.npz", "write it again",
    ),
    "no archive": (
        lambda at: (arrays(at, x=X) / "x.npy").rename(at / "a.npz"),
        "the file cannot be read: BadZipFile", "a.npz", "write it again",
    ),
    "an input twice": (
        lambda at: arrays(protos(at / "a", input_0=X), x=X), "x is given twice", "x.npy", "give each input once",
    ),
    "a pipe": (lambda at: pipe(at / "x.npy").parent, "this is not a file with inputs", "x.npy", "a sample is"),
    "a pipe by itself": (lambda at: pipe(at / "x.npy"), "this is not a file with inputs", "x.npy", "a sample is"),
    "an unknown input of any size": (
        lambda at: bomb(at / "a.npz", "other"), "the model has no input other", "a.npz", "it takes: x float",
    ),
    "an input larger than memory": (
        lambda at: bomb(at / "a.npz", "x"), "the file cannot be read: MemoryError: x takes", "a.npz", "write it again",
    ),
}  # fmt: skip


@pytest.mark.parametrize("mistake", MISTAKES)
def test_what_is_wrong_where_and_what_to_do(tmp_path: Path, mistake: str) -> None:
    make, what, where, hint = MISTAKES[mistake]
    path = make(tmp_path)
    with pytest.raises(UsageError) as caught:
        samples(path)
    error = caught.value
    assert what in error.what and error.where.endswith(where) and error.hint.startswith(hint)


def test_a_sequence_is_no_tensor(tmp_path: Path) -> None:
    model = parse(
        "agraph (seq(float[N]) s) => (float[M] y) { y = ConcatFromSequence <axis = 0> (s) }"
    )
    with pytest.raises(
        UsageError, match="the input s is a sequence, which this file does not contain"
    ):
        samples(archive(tmp_path / "a.npz", s=X[0]), model)


# -- verification on them
# ----------------------------------------------------------------------------------------------

PLAIN = "agraph (float[N,3] x) => (float[N,3] y) { y = Identity (x) }"
CLIPPED = """agraph (float[N,3] x) => (float[N,3] y) {
    lo = Constant <value = float {-5000}> () hi = Constant <value = float {5000}> ()
    c = Clip (x, lo, hi) open = IsInf (x) y = Where (open, x, c) }"""


def judged(folder: Path, candidate: str, inputs: Path) -> Verification:
    onnx.save(parse(PLAIN), folder / "a.onnx")
    onnx.save(parse(candidate), folder / "b.onnx")
    return verify(folder / "a.onnx", folder / "b.onnx", inputs=inputs)


def test_a_difference_that_only_the_users_data_show(tmp_path: Path) -> None:
    archive(tmp_path / "data/usual.npz", x=X)
    assert (
        judged(tmp_path, CLIPPED, tmp_path / "data").summary
        == "equal in 8 runs; 1 of them on the given inputs"
    )
    archive(tmp_path / "data/large.npz", x=X * 1e5)
    found = judged(tmp_path, CLIPPED, tmp_path / "data")
    assert found.status == "different" and found.differences[0].run == "large.npz"


def test_inputs_on_which_the_reference_decides_nothing(tmp_path: Path) -> None:
    chaotic = """agraph (float[N,3] x) => (float[N,3] y)
        <float k = {{1000000.3}}, float j = {{300.7}}, float c = {{4.5}}> {{
        d = Sub (x, c) r = Relu (d) e = Mul (r, k) {} s = Sin (f) y = Add (s, x) }}"""
    onnx.save(parse(chaotic.format("g = Mul (e, j) f = Identity (g)")), tmp_path / "a.onnx")
    onnx.save(parse(chaotic.format("h = Mul (k, j) f = Mul (r, h)")), tmp_path / "b.onnx")
    for name, factor in (("large", 7), ("small", 0.1)):
        archive(tmp_path / f"data/{name}.npz", x=X * np.float32(factor))
    found = verify(tmp_path / "a.onnx", tmp_path / "b.onnx", inputs=tmp_path / "data", levels=())
    assert (
        found.status == "equal"
        and "; 1 of them on the given inputs; on 1 of the given inputs the" in found.summary
    )


def test_recorded_outputs_are_compared_with_the_model(tmp_path: Path) -> None:
    for number in range(2):
        protos(tmp_path / f"data/test_data_set_{number}", input_0=X, output_0=X)
    found = judged(tmp_path, PLAIN, tmp_path / "data")
    assert found.summary.endswith(
        "2 of them on the given inputs; the recorded outputs of 2 are those of the model"
    )
    protos(tmp_path / "data/test_data_set_1", output_0=X + 1)
    found = judged(tmp_path, PLAIN, tmp_path / "data")
    assert found.status == "equal" and re.search(
        (
            "those of the model; the model itself does not give the recorded outputs of 1: "
            "test_data_set_1, y 3 of 3"
        ),
        found.summary,
    )


def test_inputs_that_the_model_does_not_take(tmp_path: Path) -> None:
    model = parse("agraph (float[A] a, float[B] b) => (float[C] y) { y = Add (a, b) }")
    onnx.save(model, tmp_path / "a.onnx")
    archive(tmp_path / "data.npz", a=X[0], b=X[0, :2])
    with pytest.raises(
        UsageError, match="onnxruntime cannot run the model on these inputs"
    ) as caught:
        verify(tmp_path / "a.onnx", tmp_path / "a.onnx", inputs=tmp_path / "data.npz")
    assert caught.value.where == "data.npz"


def test_samples_that_are_large_together_are_in_memory_one_at_a_time(tmp_path: Path) -> None:
    for number in range(28):
        archive(tmp_path / f"data/{number}.npz", x=np.full((1 << 18, 3), number, np.float32))
    tracemalloc.start()
    found = judged(tmp_path, PLAIN, tmp_path / "data")
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert found.summary.startswith("equal in 35 runs") and peak < MOST_KEPT + 12 * (3 << 20)


def test_a_model_that_is_too_large_for_drawn_inputs_runs_on_those_that_are_given(
    tmp_path: Path,
) -> None:
    """No values are drawn for an input of more elements than memory has; an empty one fits into
    any.
    """
    onnx.save(
        parse("agraph (float[0,70000,70000] x) => (float[A] y) { y = ReduceSum <keepdims=0> (x) }"),
        tmp_path / "a.onnx",
    )
    inputs = archive(tmp_path / "data.npz", x=np.zeros((0, 70000, 70000), np.float32))
    assert verify(tmp_path / "a.onnx", tmp_path / "a.onnx", inputs=inputs).status == "equal"


def test_an_empty_input_of_huge_dimensions_is_not_drawn(tmp_path: Path) -> None:
    """numpy has no empty array of which the other dimensions multiply to more than it can count."""
    shape = f"float[N,0,{1 << 62}]"
    onnx.save(parse(f"agraph ({shape} x) => ({shape} y) {{ y = Abs (x) }}"), tmp_path / "a.onnx")
    found = verify(tmp_path / "a.onnx", tmp_path / "a.onnx")
    assert found.status == "impossible"
    assert found.summary == f"the input x with the dimensions 0, {1 << 62} is too large to be run"


def test_an_input_without_a_type_takes_given_values_only(tmp_path: Path) -> None:
    """onnxruntime knows it from the output of the same name."""
    model = parse("agraph (uint32[N] x) => (uint32[N] x) <uint32 c = {7}> { a = Add (x, c) }")
    model.graph.input[0].ClearField("type")
    onnx.save(model, tmp_path / "a.onnx")
    found = verify(tmp_path / "a.onnx", tmp_path / "a.onnx")
    assert (found.status, found.summary) == ("impossible", "the input x has no type")
    inputs = archive(tmp_path / "data.npz", x=np.zeros(3, np.uint32))
    assert verify(tmp_path / "a.onnx", tmp_path / "a.onnx", inputs=inputs).status == "equal"


def test_a_conversion_takes_them(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    onnx.save(parse(PLAIN), "model.onnx")
    archive(tmp_path / "data.npz", x=X)
    report = fusionc.convert("model.onnx", inputs="data.npz")
    assert report.verification == "equal in 8 runs; 1 of them on the given inputs"
    for wrong in ("no.npz", "data.npz/x"):
        with pytest.raises(UsageError, match="do not exist"):
            fusionc.convert("model.onnx", inputs=wrong)
    archive(tmp_path / "others.npz", other=X)
    fusionc.convert("model.onnx", inputs="others.npz", verify=False, report="r.html")
    assert "Not measured: the model has no input other." in Path("r.html").read_text()
    report = fusionc.convert("model.onnx", inputs="data.npz", verify=False, on_mismatch="rollback")
    for option in ("--inputs", "--on_mismatch"):
        assert f"{option} has no effect without verification" in report.notices
