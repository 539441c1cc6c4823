"""onnx-graphsurgeon's calls on the graph that passes see: which of them work, and what to use
instead of the others. A graph is read as in onnx-graphsurgeon. Changing it is left to the engine: a
pass returns what it wants, and the engine puts it in. So a call that would change the graph raises
TypeError, and a missing one raises AttributeError; both say what to do instead.
docs/graphsurgeon.md is generated from these tables.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any, Generic, NoReturn, TypeVar

T = TypeVar("T")

WORKS = {  # what works as in onnx-graphsurgeon, and in which way it differs
    "Node": {
        "op": "",
        "name": "",
        "domain": '"" for the standard operators, however the model spells that',
        "attrs": "tensors are TensorProto; `node.attr(name)` is the attribute or its default",
        "inputs": "a tuple; None for an optional input that is left out",
        "outputs": "a tuple; None for an optional output that is left out",
        "i()": "",
        "o()": "where subgraphs use a value as well, their nodes may come first",
        "subgraphs()": "",
        "AttributeRef": "",
    },
    "Tensor": {
        "name": "",
        "inputs": "a tuple",
        "outputs": "a tuple, in which a node that uses the value twice is there once; `is_output` "
        "says whether the graph hands the value out",
        "shape": (
            "a tuple as far as it can be inferred, not only as declared: numbers, symbols and None"
        ),
        "dtype": (
            "inferred as well; None where it is unknown, types of ml_dtypes for those that numpy "
            "does not have"
        ),
        "i()": "",
        "o()": "",
        "is_empty()": "never: an omitted input is None",
        "DYNAMIC": "",
    },
    "Constant": {
        "values": "read from the file when they are asked for; `constant()` works for values of "
        "any kind, and is None where they are unknown before the model runs",
    },
    "Graph": {
        "nodes": (
            "in no order; `graph.ordered()` sorts them, `graph.of_operator(op)` finds those of "
            "one operator"
        ),
        "inputs": "a tuple",
        "outputs": "a tuple",
        "opset": "",
    },
}

_ON_THE_TAPE = "make a new node with new.Op(x, like=node) and return its output"
_ENGINE = "the engine does that after every rewrite"
MISSING = {  # what is missing, and what to use instead
    "Node": {
        "copy()": "new.node(node.op, inputs, domain=node.domain, like=node) has the same attributes"
    },
    "Variable": {
        "to_constant()": "return new.const(array) from the rewrite, which takes the place of the "
        "value",
        "to_variable()": "every value that is not a constant is one",
        "copy()": "a value may be used by any number of new nodes as it is",
        "type": "elem_type is 0 for what is not a tensor; known_type has the rest",
        "empty()": "None stands for an input that is left out",
    },
    "Constant": {
        "to_constant()": "it is one; return new.const(array) for another one",
        "to_variable()": "a constant stays one; return another value from the rewrite",
        "copy()": (
            "a constant may be used by any number of new nodes as it is, new.const(array) makes "
            "another one"
        ),
        "export_dtype": "dtype is the type in the file",
        "data_location": "`data`, where it is a TensorProto, says where the elements lie in an "
        "external file",
    },
    "Graph": {
        "layer()": _ON_THE_TAPE,
        "register()": "new.Op(x) makes a node of any operator, new.node(op, inputs, domain=d) of "
        "any domain",
        "cleanup()": f"{_ENGINE}, for what the rewrite has replaced; PrunePass removes the rest",
        "toposort()": f"{_ENGINE}; graph.ordered() lists the nodes",
        "fold_constants()": "ConstantFoldingPass has done that",
        "tensors()": "graph.values is the dict of names and values",
        "subgraphs()": "node.subgraphs() of the nodes that have some",
        "functions": "graph.model.functions holds them by domain, name and overload",
        "copy()": "fusionc.convert writes another model, and never changes the one it reads",
        "node_ids()": "nodes can be keys of a dict or members of a set",
        "name": "graph.proto.name",
        "doc_string": "graph.proto.doc_string",
        "import_domains": "graph.opset_of(domain) is the version of an operator set",
        "ir_version": "graph.model.ir_version",
        "producer_name": "graph.model.proto.producer_name",
        "producer_version": "graph.model.proto.producer_version",
        "name_idx": "the engine gives new values and nodes their names",
        "DEFAULT_OPSET": "graph.opset",
        "OPSET_FUNC_MAP": "new.Op(x) makes a node of any operator",
        "GLOBAL_FUNC_MAP": "new.Op(x) makes a node of any operator",
    },
}

CHANGES = {  # what would change the graph, and what to do instead
    "Node": _ON_THE_TAPE,
    "Value": "return another value from the rewrite, which takes its place and its name",
    "Constant": "return new.const(array) from the rewrite, which takes its place",
    "Graph": (
        "what a rewrite returns takes the place of what it matched; inputs and outputs of a "
        "model stay"
    ),
}
_READ = frozenset(name.rstrip("()") for names in WORKS.values() for name in names)


class _Missing:
    """A name that onnx-graphsurgeon has and this graph does not: reading it raises an error that
    says what to use.
    """

    def __init__(self, name: str, instead: str) -> None:
        self.name = name
        self.instead = instead

    def __get__(self, owner: object, _: type | None = None) -> Any:
        if owner is None:
            return self
        what = f"{type(owner).__name__}.{self.name} of onnx-graphsurgeon is not here"
        raise AttributeError(f"{what}: {self.instead}")


def missing(name: str) -> Callable[[type[T]], type[T]]:
    """Decorate the counterpart of an onnx-graphsurgeon class: what it lacks raises an error that
    says so.
    """

    def decorate(decorated: type[T]) -> type[T]:
        for call, instead in MISSING[name].items():
            setattr(decorated, call.removesuffix("()"), _Missing(call, instead))
        return decorated

    return decorate


class ReadOnly:
    """The base of all that passes read. The engine assigns other ReadOnlyTuples, replaces values in
    Replaceable ones, and names new values. Equality is identity.
    """

    __hash__ = object.__hash__
    # not written in Python: it searches tuples of thousands of values
    __eq__ = object.__eq__

    def __setattr__(self, name: str, value: object) -> None:
        if name in _READ and not isinstance(value, ReadOnlyTuple) and _has(self, name):
            kind = type(self).__name__
            raise TypeError(f"a pass does not assign {kind}.{name}: {CHANGES[kind]}")
        object.__setattr__(self, name, value)


def _has(owner: Any, name: str) -> bool:
    """Whether the graph contains this already; it contains a new value once that is named."""
    if name == "name" and name in vars(owner):
        return owner.graph.values.get(owner.name) is owner
    return name in vars(owner) or hasattr(type(owner), name)


def _refuse(what: object, *_: object, **__: object) -> NoReturn:
    raise TypeError(
        f"a pass changes no {type(what).__name__}: what a rewrite returns takes the place of "
        "what it matched"
    )


class ReadOnlyTuple(tuple[Any, ...]):
    """Inputs and outputs. Methods that would change a list say what to do instead."""

    __slots__ = ()


class Replaceable(Generic[T]):
    """A ReadOnlyTuple, as an attribute, in which the engine replaces values in constant time. It is
    rebuilt when it is read next, as a node that reads all others may lose thousands of them before.
    """

    def __set_name__(self, owner: type, name: str) -> None:
        self._name = name

    def __get__(self, owner: Any, _: type) -> tuple[T, ...]:
        if owner is None or "_places" not in owner.__dict__:
            return ()
        places: _Places[T] = owner.__dict__["_places"]
        made = places.made = owner.__dict__[self._name] = ReadOnlyTuple(places.values)
        return made


class _Places(Generic[T]):
    """The places of each value in a tuple, and the tuple that was made last, if it is still
    current.
    """

    def __init__(self, values: tuple[T, ...]) -> None:
        self.values = list(values)
        self.made: tuple[T, ...] | None = values
        self.of: dict[T, list[int]] = {}
        for place, value in enumerate(values):
            self.of.setdefault(value, []).append(place)


def replace_in(owner: Any, name: str, old: T, new: T) -> None:
    """Replace `old` by `new` in the Replaceable attribute of a class, which has only one."""
    # None if it was not read or assigned since the last replacement
    read = owner.__dict__.get(name)
    places = owner.__dict__.get("_places")
    if places is None or (read is not None and read is not places.made):
        places = owner.__dict__["_places"] = _Places(getattr(owner, name))
    # empty in the second call for a value that was there twice
    moved = places.of.pop(old, [])
    for place in moved:
        places.values[place] = new
    if moved:
        places.of.setdefault(new, []).extend(moved)
    # a tuple that is assigned later counts as another one, even if it was read before
    places.made = None
    owner.__dict__.pop(name, None)


class ReadOnlyDict(dict[str, Any]):
    """Attributes of a node."""


class NodesOfGraph(dict[Any, None]):
    """The nodes of a graph, which passes use as a set; the engine sets and deletes keys."""

    def __missing__(self, key: object) -> NoReturn:
        raise TypeError(
            f"the nodes of a graph are in no order, there is no {key!r}: graph.ordered()[0] is "
            "the first"
        )


def _forbid(decorated: type, names: Iterable[str]) -> None:
    for name in names:
        setattr(decorated, name, _refuse)


_OF_LISTS = ("append", "extend", "insert", "remove", "pop", "clear", "sort", "reverse")
_OF_DICTS = ("clear", "pop", "popitem", "setdefault", "update", "__ior__")
_forbid(ReadOnlyTuple, (*_OF_LISTS, "__setitem__", "__delitem__", "__iadd__"))
_forbid(ReadOnlyDict, (*_OF_DICTS, "__setitem__", "__delitem__"))
_forbid(NodesOfGraph, (*_OF_LISTS, *_OF_DICTS))
