"""Cut a message of onnxruntime to the clause that says what is wrong: without codes, the path of a
temporary file, and the places in its C++ source.
"""

from __future__ import annotations

import re

_CUTS = (
    (r"^\[ONNXRuntimeError\] : \d+ : \w+ : ", ""),
    (r"^Load model from .*? failed: ?", ""),
    (r"^(Exception during initialization|Fatal error): ", ""),
    (r"^This is an invalid model\. ", ""),
    # the node, its inputs and its outputs → the node
    (r'^(?:Error: )?In Node, \("(.*?)", (\w+), ".*?", -?\d+\) : .*?, ?Error:? ', r'\2 "\1": '),
    (
        r"^Non-zero status code returned while running (\w+) node\. Name:'(.*?)' Status Message: ",
        r'\1 "\2": ',
    ),
    (r'^(\w+) "": ', r"\1: "),
    (
        r"ONNX Runtime only \*guarantees\* .*? Opset (\d+) is under development .*? Current "
        r"official support for domain (\S+) is till opset (\d+)\.?",
        r"opset \1 of \2 is newer than the last that onnxruntime supports, which is \3",
    ),
)
_SOURCE = re.compile(r"/\S+\.(?:h|cc|cpp|hpp):\d+ ")
_CONDITION = re.compile(r"\S[^.]*? was false\. (?=\S)")


def error_clause(message: str) -> str:
    """The clause of a message, in one line."""
    text = " ".join(message.split())
    for pattern, short in _CUTS:
        text = re.sub(pattern, short, text)
        text = _without_source(text)
    return text.strip() or message


def _without_source(text: str) -> str:
    """The text without the places in onnxruntime's source, their functions, and their conditions
    if a sentence follows.
    """
    while place := _SOURCE.search(text):
        rest = text[_end_of_function(text, place.end()) :].lstrip()
        condition = _CONDITION.match(rest)
        text = text[: place.start()] + (rest[condition.end() :] if condition else rest)
    return text


def _end_of_function(text: str, start: int) -> int:
    """The position after a C++ function that begins at `start`: after its parameters and what
    belongs to them. `start` if the function has no parameters.
    """
    opening = text.find("(", start)
    if opening < 0:
        return start
    depth = 0
    for at in range(opening, len(text)):
        depth += {"(": 1, ")": -1}.get(text[at], 0)
        if not depth:
            more = re.compile(r"(?:>| const\b| noexcept\b| \[with .*?\](?= ))*").match(text, at + 1)
            end = at + 1 if more is None else more.end()
            return _end_of_function(text, end) if text.startswith("::", end) else end
    return start
