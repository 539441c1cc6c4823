"""The origin of a node, as the node itself states it: the passes that made it, and the original
nodes that it replaces. Its metadata_props have it, in models of older IR versions its doc_string,
with one line for each rewrite.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

from onnx import NodeProto

PASS_KEY = "fusionc.pass"
FROM_KEY = "fusionc.from"
_IN_DOC_STRING = re.compile(
    rf"^{re.escape(PASS_KEY)}=(.*?); {re.escape(FROM_KEY)}=(.*)$", re.MULTILINE
)


@dataclass(frozen=True)
class Origin:
    """`passes` made the node from the nodes named `sources`."""

    passes: tuple[str, ...]
    sources: tuple[str, ...]


def origin_of(node: NodeProto) -> Origin | None:
    """The origin that a node states; None if no pass made it."""
    properties = {prop.key: prop.value for prop in node.metadata_props}
    written = _IN_DOC_STRING.findall(doc_of(node))
    if PASS_KEY in properties:
        written.append((properties[PASS_KEY], properties.get(FROM_KEY, "")))
    passes, sources = (
        dict.fromkeys(name for line in written for name in line[at].split(",")) for at in (0, 1)
    )
    return Origin(tuple(passes), tuple(sources)) if written else None


def doc_of(node: NodeProto) -> str:
    """The doc_string of a node, which may contain bytes that are not text."""
    doc: str | bytes = node.doc_string
    return doc if isinstance(doc, str) else doc.decode(errors="replace")


def doc_line(origin: Origin) -> str:
    """The line of a doc_string that states an origin."""
    return f"{PASS_KEY}={','.join(origin.passes)}; {FROM_KEY}={','.join(origin.sources)}"


def newest_lines(doc_string: str, most: int) -> str:
    """The text with only the last `most` of these lines."""
    lines = doc_string.split("\n")
    places = [at for at, line in enumerate(lines) if _IN_DOC_STRING.match(line)]
    dropped = set(places[:-most])
    return "\n".join(line for at, line in enumerate(lines) if at not in dropped)
