"""Options that name several values of a model in one text, "conv1:0;logits" or
"x:1,3,224,224;ids:1,5".

Names of values may contain the separators, as those from TFLite do: a name that the model has is
not split. If a text can be read in two ways, the reading with the longer names counts.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator

from onnx import ModelProto


def split_values(text: str, names: Collection[str], name_in: Callable[[str], str]) -> Iterator[str]:
    """The parts of a text between semicolons, stripped and without empty ones. `names` are those
    that the model has, `name_in` finds the name in a part.
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


def leading_name(part: str) -> str:
    """The text before the last colon; empty if a semicolon follows that."""
    name, _, said = part.rpartition(":")
    return "" if ";" in said else name.strip()


def names_of_values(model: ModelProto) -> set[str]:
    """The names of values of the main graph: their own, and those of their nodes with a number."""
    made = {output for node in model.graph.node for output in node.output if output}
    numbered = {
        f"{node.name}:{index}"
        for node in model.graph.node
        for index in range(len(node.output))
        if node.name
    }
    return made | numbered | {value.name for value in model.graph.output}
