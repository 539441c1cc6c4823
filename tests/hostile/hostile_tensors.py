"""Impossible weights, types and sizes, and weights whose file does not match the model."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from hostile_case import UNVERIFIED, Case, model, options
from onnx import AttributeProto, ModelProto, TensorProto, helper

_SLICED = "agraph (float[N] x) => (float[M] y) <int64[1] a = {1}, int64[1] b = {5}> { y = Slice (x, a, b) }"
_THREE = "agraph (float[N] x) => (float[M] y) <int64[1] w = {3}> { y = Reshape (x, w) }"


def _set_types(elem_type: int) -> dict[str, Callable[[ModelProto], object]]:
    def weight(m: ModelProto) -> None:
        m.graph.initializer[0].data_type = elem_type

    def unused(m: ModelProto) -> None:
        m.graph.initializer.add(name="u", data_type=elem_type, dims=[1], raw_data=b"1234")

    def declared(m: ModelProto) -> None:
        m.graph.value_info.append(helper.make_tensor_value_info("a", elem_type, [None]))

    def graph_input(m: ModelProto) -> None:
        m.graph.input[0].type.tensor_type.elem_type = elem_type

    def graph_output(m: ModelProto) -> None:
        m.graph.output[0].type.tensor_type.elem_type = elem_type

    def constant(m: ModelProto) -> None:
        m.graph.node.add(op_type="Constant", output=["u"]).attribute.add(
            name="value", type=AttributeProto.TENSOR
        ).t.CopyFrom(TensorProto(data_type=elem_type, dims=[1], raw_data=b"1234"))

    return {
        "a weight": weight,
        "an unused weight": unused,
        "a value info": declared,
        "an input": graph_input,
        "an output": graph_output,
        "a Constant": constant,
    }


def _cast(elem_type: int) -> Callable[[ModelProto], object]:
    return lambda m: m.graph.node.add(op_type="Cast", input=["x"], output=["u"]).attribute.add(
        name="to", type=AttributeProto.INT, i=elem_type
    )


def _weight_of(**fields: object) -> Callable[[ModelProto], object]:
    """Stores the weight in another way."""

    def change(m: ModelProto) -> None:
        m.graph.initializer[0].CopyFrom(
            TensorProto(**{"name": "w", "data_type": 1, "dims": [1], **fields})
        )

    return change


def _unused_of(**fields: object) -> Callable[[ModelProto], object]:
    return lambda m: m.graph.initializer.add(**{"name": "u", "data_type": 1, "dims": [1], **fields})


def _both_kinds(m: ModelProto) -> None:
    m.graph.initializer.add(name="u", data_type=1, dims=[1], raw_data=b"123").external_data.add()


def _dim(size: int, *, of_output: bool = False) -> Callable[[ModelProto], object]:
    def change(m: ModelProto) -> None:
        value = m.graph.output[0] if of_output else m.graph.input[0]
        value.type.tensor_type.shape.dim[0].dim_value = size

    return change


def _external(**entries: str) -> Callable[[Path], object]:
    """Moves the weight to the file w.bin: the first 4 bytes, or the part that `entries` describe."""

    def make(folder: Path) -> None:
        def change(m: ModelProto) -> None:
            tensor = m.graph.initializer[0]
            tensor.CopyFrom(
                TensorProto(name="w", data_type=1, dims=[1], data_location=TensorProto.EXTERNAL)
            )
            for key, value in {"location": "w.bin", **entries}.items():
                tensor.external_data.add(key=key, value=value)

        (folder / "w.bin").write_bytes(b"1234")
        model(change)(folder)

    return make


CASES = [
    *(
        Case(
            f"{place} of type {number}",
            model(change),
            (f"element type {number}", "where: ", "export the model again"),
        )
        for number in (99, -1, 0)
        for place, change in _set_types(number).items()
    ),
    *(Case(f"Cast to {number}", model(_cast(number)), (), UNVERIFIED) for number in (99, -1, 0)),
    Case("raw data are too short", model(_weight_of(raw_data=b"123")), ("'w'",)),
    Case("raw data are too long", model(_weight_of(raw_data=b"12345")), ("'w'",)),
    Case("raw data are missing", model(_weight_of()), ("'w'",)),
    Case("too many floats", model(_weight_of(float_data=[1, 2])), ("'w'",)),
    Case("floats for integers", model(_weight_of(data_type=7, float_data=[1])), ("'w'",)),
    Case("integers for floats", model(_weight_of(int64_data=[1])), ("'w'",)),
    Case("raw data of strings", model(_weight_of(data_type=8, raw_data=b"1234")), ("'w'",)),
    Case("a weight of strings", model(_weight_of(data_type=8, string_data=[b"a"])), (), UNVERIFIED),
    Case(
        "a negative dimension of a weight", model(_weight_of(dims=[-1], float_data=[1])), ("'w'",)
    ),
    Case("a weight of 2^62 elements", model(_weight_of(dims=[2**62], float_data=[1])), ("'w'",)),
    Case("a weight of 2^64 elements", model(_weight_of(dims=[2**62, 4], float_data=[1])), ("'w'",)),
    Case(
        "a weight of 2^64 elements that are none",
        model(_weight_of(dims=[2**62, 4, 0], raw_data=b"")),
        ("'w'",),
    ),
    Case(
        "a segment",
        model(_weight_of(float_data=[1], segment=TensorProto.Segment(begin=0, end=1))),
        ("'w'", "segment"),
    ),
    Case("short raw data that nothing uses", model(_unused_of(raw_data=b"123")), (), 0),
    Case(
        "a negative dimension that nothing uses",
        model(_unused_of(dims=[-1], raw_data=b"1234")),
        (),
        0,
    ),
    Case("short raw data beside external ones that nothing uses", model(_both_kinds), (), 0),
    Case(
        "a negative dimension that nothing uses and that sizes are guessed of",
        model(_unused_of(dims=[-1, -1], raw_data=b"1234"), _THREE),
        (),
        0,
    ),
    Case(
        "2^62 elements that nothing uses",
        model(_unused_of(dims=[2**62, 4], raw_data=b"1234")),
        (),
        0,
    ),
    Case("an input of 2^62 elements", model(_dim(2**62)), ("not verified",), UNVERIFIED),
    Case("an input of -1 elements", model(_dim(-1)), (), 0),
    Case("a Slice of an input of -1 elements", model(_dim(-1), _SLICED), (), 0),
    Case("it is not verified", model(_dim(-1), _SLICED), (), 0, options("--no-verify")),
    Case("an input of -2^63 elements", model(_dim(-(2**63))), (), 0),
    Case("an output of -5 elements", model(_dim(-5, of_output=True)), (), 0),
    Case("an output of 2^62 elements", model(_dim(2**62, of_output=True)), (), 0),
    Case(
        "missing external data",
        _external(location="missing.bin"),
        ("E10410", "'missing.bin'", "copy the file of weights"),
        2,
    ),
    Case("external data that are too short", _external(length="8"), ("'w'",)),
    Case("external data that are shorter than the weight", _external(length="2"), ("'w'",)),
    Case("external data behind the end", _external(offset="4"), ("'w'",)),
    Case("external data far behind the end", _external(offset=str(2**70)), ("'w'",)),
    Case("external data before the beginning", _external(offset="-4"), ("'w'",)),
    Case("external data at no number", _external(offset="one"), ("'w'",)),
    Case("external data of another number system", _external(offset="\u0663"), ("'w'",)),
    Case("external data of no length", _external(length="-1"), ("'w'",)),
    Case("external data at an absolute path", _external(location="/etc/passwd"), ("E13001",)),
    Case("external data above the folder", _external(location="../w.bin"), ("E13001",)),
    Case("external data in the folder itself", _external(location="."), ("'w'",), 2),
    Case("external data without a place", _external(location=""), ("'w'",)),
    Case("external data with a name too long", _external(location="w" * 5000), ("'w'",), 2),
    Case("external data with a NUL in the name", _external(location="w\0.bin"), ("'w'",), 2),
    Case("external data with an escape in the name", _external(location="\x1b[2J"), ("'w'",), 2),
]
