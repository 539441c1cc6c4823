"""Read an AIPP configuration file (--insert_op_conf): protobuf's text form of CANN's messages
`aipp_op`, one for each input with images.
"""

from __future__ import annotations

import math
import re
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

from google.protobuf import descriptor_pool, message_factory, text_format
from google.protobuf.descriptor_pb2 import FieldDescriptorProto, FileDescriptorProto

from fusionc.errors import UsageError, advice
from fusionc.requested.aipp.aipp_keys import DYNAMIC, KEYS, STATIC
from fusionc.requested.option_file import option_text

OPTION = "--insert_op_conf"
CODE = "E10052"
_BLOCK = "aipp_op"
_HINT = "give a text file with a block aipp_op { … } for each input with images"
_COMMENT = re.compile(r"#[^\n]*")
_NAME = re.compile(r"(\w+)\s*(?=[:{])")
_TYPES = {
    bool: FieldDescriptorProto.TYPE_BOOL,
    int: FieldDescriptorProto.TYPE_INT32,
    float: FieldDescriptorProto.TYPE_DOUBLE,
    str: FieldDescriptorProto.TYPE_STRING,
}


@dataclass(frozen=True)
class AippBlock:
    """The values of one `aipp_op` block, by key. Keys that the block lacks have their default."""

    values: Mapping[str, Any]
    path: Path
    number: int  # the number of the block in the file, from 0
    lines: Mapping[
        str, int
    ]  # the line of each key in the block, from 1; the key "" has the line of the block itself

    def __getitem__(self, key: str) -> Any:
        return self.values[key]

    def error(self, key: str, what: str, hint: str) -> UsageError:
        """An error about the value of a key."""
        where = f"{self.path}:{self.lines.get(key, self.lines[''])}"
        return UsageError(what, where=where, hint=hint, code=CODE)


def aipp_blocks(path: Path) -> list[AippBlock]:
    """The blocks of a configuration file. Raises UsageError for everything that is wrong for all
    models, for example another mode than AIPP's static mode.
    """
    text = option_text(path, OPTION, _HINT)
    message = _message_class()()
    try:
        text_format.Parse(text, message)
    except text_format.ParseError as error:
        raise _syntax_error(path, text, error) from None
    lines = _lines_of_keys(text)
    blocks = [
        AippBlock(_values(block), path, number, lines[number])
        for number, block in enumerate(message.aipp_op)
    ]
    if not blocks:
        what = f"the file of {OPTION} has no block {_BLOCK}"
        raise UsageError(what, where=str(path), hint=_HINT, code=CODE)
    for one in blocks:
        _require_allowed(one)
    return blocks


@cache
def _message_class() -> Any:
    """The class of a message with repeated `aipp_op` messages, whose fields are the keys."""
    file = FileDescriptorProto(name="fusionc/aipp.proto", package="fusionc", syntax="proto2")
    block = file.message_type.add(name="Block")
    for number, (name, key) in enumerate(KEYS.items(), 1):
        field = block.field.add(name=name, number=number, label=FieldDescriptorProto.LABEL_OPTIONAL)
        field.type = _TYPES[key.type]
        if key.choices is not None:
            field.type = FieldDescriptorProto.TYPE_ENUM
            field.type_name = f".fusionc.Block.{name}_choices"
            choices = block.enum_type.add(name=f"{name}_choices")
            for choice, value in key.choices.items():
                choices.value.add(name=choice, number=value)
    whole = file.message_type.add(name="Configuration").field.add(
        name=_BLOCK, number=1, label=FieldDescriptorProto.LABEL_REPEATED
    )
    whole.type = FieldDescriptorProto.TYPE_MESSAGE
    whole.type_name = ".fusionc.Block"
    pool = descriptor_pool.DescriptorPool()
    pool.Add(file)
    return message_factory.GetMessageClass(pool.FindMessageTypeByName("fusionc.Configuration"))


def _values(block: Any) -> dict[str, Any]:
    values = {name: key.default for name, key in KEYS.items()}
    for field, value in block.ListFields():
        choices = KEYS[field.name].choices
        words = {} if choices is None else {number: word for word, number in choices.items()}
        values[field.name] = words.get(value, value)
    return values


def _lines_of_keys(text: str) -> list[dict[str, int]]:
    """For each block, the lines of its keys. The key "" has the line of the block itself."""
    lines = list[dict[str, int]]()
    for number, line in enumerate(_COMMENT.sub("", text).split("\n"), 1):
        for name in re.findall(r"(\w+)\s*[:{]|\b(aipp_op)\b", line):
            word = name[0] or name[1]
            if word == _BLOCK:
                lines.append({"": number})
            elif lines:
                lines[-1][word] = number
    return lines


def _syntax_error(path: Path, text: str, error: text_format.ParseError) -> UsageError:
    """The error for a text that is not a message, or that has a wrong key or a wrong value."""
    number = error.GetLine() or 1
    column = error.GetColumn() or 1
    line = _COMMENT.sub("", text.split("\n")[number - 1])
    names = [match[1] for match in _NAME.finditer(line) if match.start() < column]
    name = names[-1] if names else line.strip()
    what = f"the file of {OPTION} is not in protobuf's text form: {error}"
    hint = _HINT
    if "no field named" in str(error):
        what = f"{name} is not a key of AIPP"
        hint = advice(name, [_BLOCK, *KEYS], f"the keys are: {', '.join(KEYS)}")
    elif name in KEYS and "multiple" in str(error):
        what = f"{name} is given twice"
        hint = "give each key once in a block"
    elif name in KEYS and 'Expected "}"' not in str(error):
        words = line[column - 1 :].split("}")[0].split() or ["empty"]
        what = f"{name} cannot be {words[0]}"
        hint = KEYS[name].advice
    return UsageError(what, where=f"{path}:{number}", hint=hint, code=CODE)


def _require_allowed(block: AippBlock) -> None:
    """Raise UsageError for a value outside its limits, and for a value that fusionc does not
    support.
    """
    # first, because a dynamic block needs no further key
    if block["aipp_mode"] == DYNAMIC:
        what = "aipp_mode dynamic would make the preprocessing another input of the model"
        raise block.error("aipp_mode", what, f"give {STATIC}, and convert once for each setting")
    for name in ("aipp_mode", "input_format"):
        if block[name] is None:
            raise block.error(name, f"{name} is missing", KEYS[name].advice)
    for name, value in block.values.items():
        key = KEYS[name]
        if key.refusal and value != key.default:
            raise block.error(
                name, f"{name} cannot be {_text(value)}: {key.refusal}", "leave it out"
            )
        if key.limits is not None and value is not None and not _is_within(value, key.limits):
            raise block.error(name, f"{name} cannot be {_text(value)}", key.advice)


def _is_within(value: float, limits: tuple[float, float]) -> bool:
    return not math.isnan(value) and limits[0] <= value <= limits[1]


def _text(value: Any) -> str:
    return str(value).lower() if isinstance(value, bool) else f"{value:g}"
