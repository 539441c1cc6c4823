"""What the passes that move factors must know about activations."""

from __future__ import annotations

from fusionc.model.graph import Edge
from fusionc.rewrite import refuse


def _comes_from(value: Edge, name: str) -> list[Edge]:
    """The inputs of the operator that makes a value, where it is this one."""
    node = value.producer
    return [] if node is None or node.op != name else [v for v in node.inputs if v is not None]


def keep_gelu(x: Edge) -> None:
    """Refuse to take a factor away from y·(1 + erf(…)) or y·(1 + tanh(…)), half of which is Gelu."""
    sums = [term for factor in _comes_from(x, "Mul") for term in _comes_from(factor, "Add")]
    if any(_comes_from(term, "Erf") or _comes_from(term, "Tanh") for term in sums):
        refuse("runtimes recognize Gelu by its factor")
