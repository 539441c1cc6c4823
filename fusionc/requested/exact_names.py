"""Options that name several values of a model in one text, "conv1:0;logits" or
"x:1,3,224,224;ids:1,5".

Names may have the signs in them that part a text, as TFLite's have: what a model calls so is one
name, and is not parted. Of two readings that is the one with the longer names.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator

from onnx import ModelProto


def parted(text: str, names: Collection[str], name_in: Callable[[str], str]) -> Iterator[str]:
    """The parts of a text between semicolons, without spaces around them and without empty ones.

    `names` are those that the model has, `name_in` finds the name in a part.
    """
    pieces = text.split(";")
    most = 1 + max((name.count(";") for name in names), default=0)
    begin = 0
    while begin < len(pieces):
        ends = range(min(begin + most, len(pieces)), begin + 1, -1)
        known = (end for end in ends if name_in(";".join(pieces[begin:end]).strip()) in names)
        end = next(known, begin + 1)
        if part := ";".join(pieces[begin:end]).strip():
            yield part
        begin = end


def name_in_front(part: str) -> str:
    """What stands in front of the last colon; nothing where a semicolon stands behind it."""
    name, _, said = part.rpartition(":")
    return "" if ";" in said else name.strip()


def names_of_values(model: ModelProto) -> set[str]:
    """The names that values of the main graph go by: their own, and those of their nodes with a
    number.
    """
    made = {output for node in model.graph.node for output in node.output if output}
    numbered = {
        f"{node.name}:{index}"
        for node in model.graph.node
        for index in range(len(node.output))
        if node.name
    }
    return made | numbered | {value.name for value in model.graph.output}
