"""The recorded origin of a node: the passes that made it, and the original nodes that it replaces.

The origin is in metadata_props. In models with an IR version before 10 it is in doc_string, with
one line for each rewrite.
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
    """The origin that is recorded in a node; None if no pass made the node."""
    properties = {prop.key: prop.value for prop in node.metadata_props}
    records = _IN_DOC_STRING.findall(doc_of(node))
    if PASS_KEY in properties:
        records.append((properties[PASS_KEY], properties.get(FROM_KEY, "")))
    passes, sources = (
        dict.fromkeys(name for record in records for name in record[at].split(",")) for at in (0, 1)
    )
    return Origin(tuple(passes), tuple(sources)) if records else None


def doc_of(node: NodeProto) -> str:
    """The doc_string of a node as text. Bytes that are not UTF-8 are replaced."""
    doc: str | bytes = node.doc_string
    return doc if isinstance(doc, str) else doc.decode(errors="replace")


def doc_line(origin: Origin) -> str:
    """The line of a doc_string that records an origin."""
    return f"{PASS_KEY}={','.join(origin.passes)}; {FROM_KEY}={','.join(origin.sources)}"


def newest_lines(doc_string: str, most: int) -> str:
    """The doc_string with only the last `most` of its origin lines."""
    lines = doc_string.split("\n")
    places = [at for at, line in enumerate(lines) if _IN_DOC_STRING.match(line)]
    dropped = set(places[:-most])
    return "\n".join(line for at, line in enumerate(lines) if at not in dropped)
