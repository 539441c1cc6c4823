"""Areas → C → a shared library that onnxruntime loads as custom operators.

view, sizes, index      what is known of the values of an area: sizes in C, where elements lie
addressing, elementwise, reductions    the operators
pull → phases → emit    an area → nests of loops → passes over a row → C functions
source, compile, build  areas → C text → a library
cache                   the libraries of this user, which are the only ones that are trusted
c/                      the parts of every C text: onnxruntime's interface, mathematics, how kernels run
"""

from fusionc.graph_kernel.kernels.build import Built, build
from fusionc.graph_kernel.kernels.cache import known, reason_against_keeping, snapshot
from fusionc.graph_kernel.kernels.compile import DoesNotCompile, NoCompiler, compiler
from fusionc.graph_kernel.kernels.cost import saves
from fusionc.graph_kernel.kernels.sizes import Unsupported
from fusionc.graph_kernel.kernels.source import lower, reason_against, source

__all__ = [
    "Built",
    "DoesNotCompile",
    "NoCompiler",
    "Unsupported",
    "build",
    "compiler",
    "known",
    "lower",
    "reason_against",
    "reason_against_keeping",
    "saves",
    "snapshot",
    "source",
]
