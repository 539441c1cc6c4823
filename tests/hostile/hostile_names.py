"""Names that terminals, logs and text files cannot show, in every place where a model has names."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from hostile_case import UNVERIFIED, Case, model
from onnx import AttributeProto, ModelProto, TensorProto, helper

NOT_UTF8 = b"\xff\xfe\x80Z"
ESCAPE = "\x1b[31mred\x1b[0m\x07\r\nE99999: no\x9b2J\u2028"


def _renamed(change: Callable[[ModelProto, str], object], name: bytes) -> Callable[[Path], object]:
    """Puts a name that is not UTF-8 into the file, at the place where `change` puts a name."""
    stand_in = "Z" * len(name)

    def to_bytes(proto: ModelProto) -> bytes:
        change(proto, stand_in)
        return proto.SerializeToString().replace(stand_in.encode(), name)

    return model(to_bytes)


UNKNOWN_NAMES = ("operator", "domain", "attribute")  # with any name onnxruntime refuses the model


# By place of a name: the function that puts a name there.
def _node_name(m: ModelProto, name: str) -> None:
    m.graph.node[0].name = name


def _operator(m: ModelProto, name: str) -> None:
    m.graph.node.add(op_type=name, domain="own", input=["x"], output=["u"])


def _domain(m: ModelProto, name: str) -> None:
    m.graph.node.add(op_type="Own", domain=name, input=["x"], output=["u"])
    m.opset_import.add(domain=name, version=1)


def _inner_value(m: ModelProto, name: str) -> None:
    m.graph.node[0].output[0] = name
    m.graph.node[1].input[0] = name


def _input(m: ModelProto, name: str) -> None:
    m.graph.input[0].name = name
    m.graph.node[0].input[0] = name


def _output(m: ModelProto, name: str) -> None:
    m.graph.output[0].name = name
    m.graph.node[2].output[0] = name


def _weight(m: ModelProto, name: str) -> None:
    m.graph.initializer[0].name = name
    m.graph.node[0].input[1] = name


def _symbol(m: ModelProto, name: str) -> None:
    m.graph.input[0].type.tensor_type.shape.dim[0].dim_param = name


def _value_info(m: ModelProto, name: str) -> None:
    m.graph.value_info.append(helper.make_tensor_value_info(name, TensorProto.FLOAT, [None]))


def _attribute(m: ModelProto, name: str) -> None:
    m.graph.node.add(op_type="Own", domain="own", input=["x"], output=["u"]).attribute.add(
        name=name, type=AttributeProto.INT, i=1
    )
    m.opset_import.add(domain="own", version=1)


def _graph_name(m: ModelProto, name: str) -> None:
    m.graph.name = name


def _metadata(m: ModelProto, name: str) -> None:
    m.metadata_props.add(key=name, value=name)


def _node_metadata(m: ModelProto, name: str) -> None:
    m.graph.node[1].metadata_props.add(key=name, value=name)


def _documentation(m: ModelProto, name: str) -> None:
    m.graph.node[1].doc_string = name
    m.doc_string = name


def _producer(m: ModelProto, name: str) -> None:
    m.producer_name = name
    m.producer_version = name


PLACES = {
    "node name": _node_name,
    "operator": _operator,
    "domain": _domain,
    "inner value": _inner_value,
    "input": _input,
    "output": _output,
    "weight": _weight,
    "symbol": _symbol,
    "value info": _value_info,
    "attribute": _attribute,
    "graph name": _graph_name,
    "metadata": _metadata,
    "metadata of a node": _node_metadata,
    "documentation": _documentation,
    "producer": _producer,
}
TEXTS = ("metadata", "metadata of a node", "documentation", "producer")  # nothing has to read these

SYMBOLS = {
    "1,500 terms": " + ".join(["s"] * 1500),
    "1,500 terms in parentheses": "(" * 1500 + "s" + " + 1)" * 1500,
    "5,000 parentheses": "(" * 5000 + "s",
    "one power of another": "9**9**9**9",
    "10,000 digits": "s + " + "9" * 10_000,
    "a product beyond all sizes": " * ".join(["999999"] * 2000),
    "fusionc's own form": "=((('s',), 2),)",
    "almost fusionc's own form": "=((1, 2), 's')",
    "5,000 times fusionc's own form": "=" + "(" * 5000,
}

CASES = [
    *(
        Case(
            f"a symbol of {name}",
            model(lambda m, text=text: _symbol(m, text)),
            ("verification",),
            0,
        )
        for name, text in SYMBOLS.items()
    ),
    *(
        Case(
            f"{place} that is not UTF-8",
            _renamed(change, NOT_UTF8),
            ("E13005", "b'\\xff\\xfe\\x80Z' is not UTF-8", "m.onnx"),
        )
        for place, change in PLACES.items()
        if place not in TEXTS
    ),
    *(
        Case(f"{place} that is not UTF-8", _renamed(PLACES[place], NOT_UTF8), (), 0)
        for place in TEXTS
    ),
    *(
        Case(
            f"{place} with control characters",
            model(lambda m, c=change: c(m, ESCAPE)),
            (),
            UNVERIFIED if place in UNKNOWN_NAMES else 0,
        )
        for place, change in PLACES.items()
    ),
]
