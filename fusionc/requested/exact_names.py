"""Split the text of an option that names several values, such as "conv1:0;logits" or
"x:1,3,224,224;ids:1,5".

Names of values may contain the separators, for example in models from TFLite. A name that exists in
the model is not split. If a text can be split in two ways, the longer names win.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator

from onnx import ModelProto


def split_values(text: str, names: Collection[str], name_in: Callable[[str], str]) -> Iterator[str]:
    """The parts of a text between semicolons, stripped and without empty parts. `names` are the
    names in the model, and `name_in` extracts the name from a part.
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
    """The text before the last colon. Empty if a semicolon follows the colon, because the colon is
    then in another part.
    """
    name, _, rest = part.rpartition(":")
    return "" if ";" in rest else name.strip()


def names_of_values(model: ModelProto) -> set[str]:
    """All names by which an option can name values of the main graph: the names of the values, and
    names such as "conv1:0" of a node and the index of an output.
    """
    outputs = {output for node in model.graph.node for output in node.output if output}
    numbered = {
        f"{node.name}:{index}"
        for node in model.graph.node
        for index in range(len(node.output))
        if node.name
    }
    return outputs | numbered | {value.name for value in model.graph.output}
