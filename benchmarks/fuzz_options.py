"""The options of the fuzzers of generated kernels: the number of random cases, the seed, a single
case, sanitizers.
"""

from __future__ import annotations

import argparse
from dataclasses import dataclass


@dataclass(frozen=True)
class FuzzOptions:
    """The options of a run. `numbers` are the numbers of the cases."""

    seed: int
    numbers: list[int]
    sanitize: bool


def fuzz_options(description: str | None) -> FuzzOptions:
    parser = argparse.ArgumentParser(
        description=description, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--count", type=int, default=200)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--only", type=int)
    parser.add_argument("--sanitize", action="store_true")
    args = parser.parse_args()
    return FuzzOptions(
        args.seed, list(range(args.count)) if args.only is None else [args.only], args.sanitize
    )
