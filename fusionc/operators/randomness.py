"""Operators whose result may differ in a second run, or that have a side effect.

No pass folds, merges or removes these operators. Dropout and BatchNormalization are not among them,
because an attribute or input decides: see `is_pure` in `model.operators`.
"""

from fusionc.operators.domains import MICROSOFT
from fusionc.operators.facts import Trait, names_with

RANDOM = names_with(Trait.RANDOM)
RANDOM_OR_STATEFUL = RANDOM | names_with(Trait.STATEFUL, domain=MICROSOFT)
