"""onnx-graphsurgeon's API on the graph that passes see: which calls work, and what to use instead
of the other calls.

A graph is read as in onnx-graphsurgeon. Only the engine changes the graph: a pass returns the
replacement, and the engine inserts it. A call that would change the graph raises TypeError. A
missing call raises AttributeError. Both errors say what to do instead. docs/graphsurgeon.md is
generated from these tables.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any, Generic, NoReturn, TypeVar

T = TypeVar("T")

# Attributes and methods that exist as in onnx-graphsurgeon, and how they differ.
WORKS = {
    "Node": {
        "op": "",
        "name": "",
        "domain": '"" for the standard operators, even if the model says "ai.onnx"',
        "attrs": "tensors are TensorProto; `node.attr(name)` is the attribute or its default",
        "inputs": "a tuple; None for an optional input that is left out",
        "outputs": "a tuple; None for an optional output that is left out",
        "i()": "",
        "o()": "if subgraphs use a value as well, their nodes may come first",
        "subgraphs()": "",
        "AttributeRef": "",
    },
    "Tensor": {
        "name": "",
        "inputs": "a tuple",
        "outputs": "a tuple with each consumer once, even if it uses the value twice; `is_output` "
        "says whether the value is a graph output",
        "shape": "a tuple of numbers, symbols and None; inferred if it is not declared",
        "dtype": (
            "inferred if it is not declared; None if it is unknown; a type of ml_dtypes if numpy "
            "does not have it"
        ),
        "i()": "",
        "o()": "",
        "is_empty()": "never: an omitted input is None",
        "DYNAMIC": "",
    },
    "Constant": {
        "values": "read from the file on demand; `constant()` works for values of any kind, and is "
        "None if the elements are unknown before the model runs",
    },
    "Graph": {
        "nodes": (
            "not in topological order; `graph.ordered()` sorts them, `graph.of_operator(op)` finds "
            "the nodes of one operator"
        ),
        "inputs": "a tuple",
        "outputs": "a tuple",
        "opset": "",
    },
}

_NEW_NODE = "make a new node with new.Op(x, like=node) and return its output"
_BY_ENGINE = "the engine does that after every rewrite"
# Attributes and methods that are missing, and what to use instead.
MISSING = {
    "Node": {
        "copy()": "new.node(node.op, inputs, domain=node.domain, like=node) has the same attributes"
    },
    "Variable": {
        "to_constant()": "return new.const(array) from the rewrite; it replaces the value",
        "to_variable()": "every value that is not a constant is a variable",
        "copy()": "any number of new nodes may use the value itself",
        "type": "elem_type is 0 if the value is not a tensor; known_type then has its type",
        "empty()": "an input that is left out is None",
    },
    "Constant": {
        "to_constant()": "the value is a constant already; new.const(array) makes another constant",
        "to_variable()": "a constant cannot become a variable; return another value from the "
        "rewrite",
        "copy()": (
            "any number of new nodes may use the constant itself; new.const(array) makes another "
            "constant"
        ),
        "export_dtype": "dtype is the type in the file",
        "data_location": "`data`, if it is a TensorProto, says where the elements are in an "
        "external file",
    },
    "Graph": {
        "layer()": _NEW_NODE,
        "register()": "new.Op(x) makes a node of any operator, new.node(op, inputs, domain=d) of "
        "any domain",
        "cleanup()": f"{_BY_ENGINE} for the replaced nodes; PrunePass removes other unused nodes",
        "toposort()": f"{_BY_ENGINE}; graph.ordered() lists the nodes",
        "fold_constants()": "ConstantFoldingPass folds constants",
        "tensors()": "graph.values is a dict from names to values",
        "subgraphs()": "node.subgraphs() of each node that has subgraphs",
        "functions": "graph.model.functions has all bodies, by domain, name and overload",
        "copy()": "fusionc.convert writes a new model and never changes the model that it reads",
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

# What to do instead of changing an object of each class.
CHANGES = {
    "Node": _NEW_NODE,
    "Value": "return another value from the rewrite; it takes the place and the name of the value",
    "Constant": "return new.const(array) from the rewrite; it takes the place of the constant",
    "Graph": (
        "the values that a rewrite returns replace the matched outputs; inputs and outputs of a "
        "model stay"
    ),
}
_READ_ONLY = frozenset(name.rstrip("()") for names in WORKS.values() for name in names)


class _Missing:
    """An attribute that onnx-graphsurgeon has and this graph lacks. Reading the attribute raises an
    error that says what to use instead.
    """

    def __init__(self, name: str, instead: str) -> None:
        self.name = name
        self.instead = instead

    def __get__(self, owner: object, _: type | None = None) -> Any:
        if owner is None:
            return self
        what = f"{type(owner).__name__}.{self.name} of onnx-graphsurgeon is not available here"
        raise AttributeError(f"{what}: {self.instead}")


def missing(name: str) -> Callable[[type[T]], type[T]]:
    """Decorate the subclass of the onnx-graphsurgeon class `name`: missing attributes raise an
    error with advice.
    """

    def decorate(decorated: type[T]) -> type[T]:
        for call, instead in MISSING[name].items():
            setattr(decorated, call.removesuffix("()"), _Missing(call, instead))
        return decorated

    return decorate


class ReadOnly:
    """The base of all classes that passes read. Passes cannot assign attributes. The engine may
    assign a ReadOnlyTuple, replace values in a Replaceable attribute, and name new values. Equality
    is identity.
    """

    __hash__ = object.__hash__
    # The comparison of `object` is fast, which matters in searches of tuples with thousands of
    # values.
    __eq__ = object.__eq__

    def __setattr__(self, name: str, value: object) -> None:
        if name in _READ_ONLY and not isinstance(value, ReadOnlyTuple) and _has(self, name):
            kind = type(self).__name__
            raise TypeError(f"a pass does not assign {kind}.{name}: {CHANGES[kind]}")
        object.__setattr__(self, name, value)


def _has(owner: Any, name: str) -> bool:
    """Whether an attribute has its final value, and may not be assigned again. The name of a new
    value is set late, when the value enters the graph.
    """
    if name == "name" and name in vars(owner):
        return owner.graph.values.get(owner.name) is owner
    return name in vars(owner) or hasattr(type(owner), name)


def _refuse(container: object, *_: object, **__: object) -> NoReturn:
    raise TypeError(
        f"a pass cannot change a {type(container).__name__}: the values that a rewrite returns "
        "replace the matched outputs"
    )


class ReadOnlyTuple(tuple[Any, ...]):
    """Inputs or outputs. List methods that would change the tuple raise an error with advice."""

    __slots__ = ()


class Replaceable(Generic[T]):
    """An attribute that holds a ReadOnlyTuple in which the engine replaces values in constant time.
    The tuple is rebuilt only when it is read: thousands of inputs of one node may be replaced
    before that.
    """

    def __set_name__(self, owner: type, name: str) -> None:
        self._name = name

    def __get__(self, owner: Any, _: type) -> tuple[T, ...]:
        if owner is None or "_places" not in owner.__dict__:
            return ()
        places: _Places[T] = owner.__dict__["_places"]
        current = places.current = owner.__dict__[self._name] = ReadOnlyTuple(places.values)
        return current


class _Places(Generic[T]):
    """The values of a tuple and the indices of each value. `current` is the tuple itself, or `None`
    if a value was replaced after the tuple was built.
    """

    def __init__(self, values: tuple[T, ...]) -> None:
        self.values = list(values)
        self.current: tuple[T, ...] | None = values
        self.of: dict[T, list[int]] = {}
        for place, value in enumerate(values):
            self.of.setdefault(value, []).append(place)


def replace_in(owner: Any, name: str, old: T, new: T) -> None:
    """Replace `old` by `new` in the Replaceable attribute `name`. A class has only one such
    attribute.
    """
    # `None` if the attribute has been neither read nor assigned since the last replacement
    read = owner.__dict__.get(name)
    places = owner.__dict__.get("_places")
    if places is None or (read is not None and read is not places.current):
        places = owner.__dict__["_places"] = _Places(getattr(owner, name))
    # Empty if `old` occurred twice: the first call has replaced both, and this is the second call.
    moved = places.of.pop(old, [])
    for place in moved:
        places.values[place] = new
    if moved:
        places.of.setdefault(new, []).extend(moved)
    # The next call compares `current` with the attribute, and so notices a newly assigned tuple.
    places.current = None
    owner.__dict__.pop(name, None)


class ReadOnlyDict(dict[str, Any]):
    """Attributes of a node."""


class NodesOfGraph(dict[Any, None]):
    """The nodes of a graph. Passes use it as a set; the engine sets and deletes keys."""

    def __missing__(self, key: object) -> NoReturn:
        raise TypeError(
            f"the nodes of a graph have no order, so nodes[{key!r}] does not exist: "
            "graph.ordered()[0] is the first node"
        )


def _forbid(decorated: type, names: Iterable[str]) -> None:
    for name in names:
        setattr(decorated, name, _refuse)


_LIST_METHODS = ("append", "extend", "insert", "remove", "pop", "clear", "sort", "reverse")
_DICT_METHODS = ("clear", "pop", "popitem", "setdefault", "update", "__ior__")
_forbid(ReadOnlyTuple, (*_LIST_METHODS, "__setitem__", "__delitem__", "__iadd__"))
_forbid(ReadOnlyDict, (*_DICT_METHODS, "__setitem__", "__delitem__"))
_forbid(NodesOfGraph, (*_LIST_METHODS, *_DICT_METHODS))
