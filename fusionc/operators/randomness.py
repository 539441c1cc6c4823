"""Operators whose second run may give another answer, or that change something outside the graph.

Nothing of these is ever folded, merged or removed. Dropout and BatchNormalization depend on an
attribute or input: see `is_pure` in `model.operators`.
"""

from fusionc.operators.domains import MICROSOFT
from fusionc.operators.facts import Trait, names_with

RANDOM = names_with(Trait.RANDOM)
RANDOM_OR_STATEFUL = RANDOM | names_with(Trait.STATEFUL, domain=MICROSOFT)
