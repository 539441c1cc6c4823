"""--customize_dtypes: the types in which single nodes, or all nodes of an operator, compute.

Each line of the file is one of

    NAME::InputDtype:float16,float16,OutputDtype:float16
    OpType::Conv2D:InputDtype:float16,float16,OutputDtype:float32

The first form names a node, the second an operator. If both fit a node, the first counts. The types
are in the order of the inputs and outputs. Types of inputs and outputs that are not float32 are
ignored.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from enum import Enum
from pathlib import Path

import onnx

from fusionc.errors import UsageError
from fusionc.model.graph import Node
from fusionc.protos import nodes_of
from fusionc.requested.ascend_operators import onnx_operators
from fusionc.requested.kept_types import TYPE, sources_of
from fusionc.requested.option_file import option_text, wrong_file

OPTION = "--customize_dtypes"
_FORM = "lines such as NAME::InputDtype:float16,float16,OutputDtype:float16"
_LINE = re.compile(r"(?P<what>.+?):InputDtype:(?P<inputs>[^:]*?),? *OutputDtype:(?P<outputs>[^:]*)")
_WIDTHS = ("float16", "float32")
# types of inputs that no option changes, such as indices
_OTHERS = ("int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64", "bool", "")


class Form(Enum):
    """How a node computes."""

    FLOAT32 = "float32"
    FLOAT16 = "float16"
    ROUNDED = "rounded"  # its inputs are rounded to float16, and it computes in float32


@dataclass(frozen=True)
class _Customized:
    """One line of the file."""

    form: Form
    inputs: int  # the number of types that the line gives


@dataclass
class CustomizedTypes:
    """The nodes and operators in the file. `find` must look them up in a model before `form_of` is
    called.
    """

    path: Path | None = None
    names: Mapping[str, _Customized] = field(default_factory=dict)
    types: Mapping[str, _Customized] = field(default_factory=dict)  # by type of Ascend IR
    _operators: dict[str, str] = field(default_factory=dict)  # of the model's nodes, by name
    _by_operator: dict[str, Form] = field(default_factory=dict)  # by operator of ONNX

    @classmethod
    def in_file(cls, path: Path) -> CustomizedTypes:
        """The nodes and operators in a file. Raises UsageError if the file has mistakes, and
        FusioncError if it cannot be read.
        """
        names = dict[str, _Customized]()
        types = dict[str, _Customized]()
        for line in filter(
            None, map(str.strip, option_text(path, OPTION, f"give {_FORM}").splitlines())
        ):
            match = _LINE.fullmatch(line)
            if match is None:
                raise wrong_file(f"{OPTION} does not understand the line {line}", path, _FORM)
            form = _form_of(_words(match["inputs"]), _words(match["outputs"]), line, path)
            customized = _Customized(form, len(_words(match["inputs"])))
            what = match["what"].strip()
            if what.startswith(TYPE):
                types[what.removeprefix(TYPE)] = customized
            else:
                names[what.removesuffix(":")] = customized
        return cls(path, names, types)

    def __bool__(self) -> bool:
        return bool(self.names or self.types)

    def find(self, model: onnx.ModelProto) -> list[str]:
        """Look up the nodes and operators in the model. Return a notice that names missing ones.
        Raises UsageError if a line gives types for more inputs than its node has.
        """
        nodes = {node.name: node for node in nodes_of(model) if node.name}
        operators = {node.op_type for node in nodes_of(model)}
        self._operators = {name: node.op_type for name, node in nodes.items()}
        lost = [name for name in self.names if name not in nodes]
        for name in self.names.keys() & nodes.keys():
            count = len(nodes[name].input)
            if self.names[name].inputs > count:
                what = f"{OPTION} gives types for {self.names[name].inputs} inputs of {name}"
                hint = f"it has {count}"
                raise UsageError(what, where=str(self.path), hint=hint, code="E10001")
        for type_, customized in self.types.items():
            known = operators.intersection(onnx_operators(type_))
            lost += [] if known else [f"{TYPE}{type_}"]
            self._by_operator |= dict.fromkeys(known, customized.form)
        return [f"{OPTION}: the model does not have {', '.join(lost)}"] if lost else []

    def form_of(self, node: Node) -> Form | None:
        """The form that the file asks for: of the node itself, or of a node from which a pass made
        it. None if the file asks for nothing.
        """
        labels = (node.label(), *sources_of(node))
        forms = {self.names[label].form for label in labels if label in self.names}
        if not forms:
            operators = {node.op, *(self._operators.get(label, "") for label in labels)}
            forms = {self._by_operator[one] for one in operators & self._by_operator.keys()}
        return next((form for form in Form if form in forms), None)


def _words(text: str) -> list[str]:
    return [word.strip() for word in text.split(",")]


def _form_of(inputs: Iterable[str], outputs: Iterable[str], line: str, path: Path) -> Form:
    """The form with these types of inputs and outputs."""
    read = _widths(inputs, line, path)
    made = _widths(outputs, line, path)
    if read == {"float16"} and made == {"float32"}:
        return Form.ROUNDED
    if len(read | made) == 1:
        return Form("".join(read | made))
    hint = "float16 or float32 for all, or float16 for inputs and float32 for outputs"
    raise wrong_file(f"{OPTION} asks for types that no node can have: {line}", path, hint)


def _widths(words: Iterable[str], line: str, path: Path) -> set[str]:
    """The types among these words that say how to compute."""
    types = {word.lower() for word in words}
    unknown = types.difference((*_WIDTHS, *_OTHERS))
    if unknown:
        raise wrong_file(
            f"{OPTION} has the type {min(unknown)} in the line {line}", path, "float16 or float32"
        )
    return types.intersection(_WIDTHS)
