"""The library of kernels of one conversion: build it, take it over from the model, or check it."""

from __future__ import annotations

import shlex
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

import onnx

from fusionc.errors import FusioncError
from fusionc.graph_kernel.area import NARROW_DOC
from fusionc.graph_kernel.library.cache import known, reason_against_keeping, snapshot
from fusionc.model.operators import KERNELS
from fusionc.runtime.process import request
from fusionc.runtime.processor import has_bfloat16
from fusionc.runtime.run_errors import RunError

if TYPE_CHECKING:
    from fusionc.graph_kernel.area import Area


@dataclass
class KernelLibrary:
    """Builds the library of a conversion.

    If the target has no kernels, or the machine has no compiler, areas become functions without
    kernels: `file` is None, and `notices` say why. `missing` maps the name of each area without a
    kernel to the reason. A model that an earlier conversion made may come with a library
    (`inherited`). Then `file` is a copy of that library, and no areas are added. `tell` receives
    messages about the progress of the compiler.
    """

    target: str
    tell: Callable[[str], None] = lambda _: None
    file: Path | None = None  # the library to use
    inherited: Path | None = None  # the library that came with the model
    inherits_bfloat16: bool = False  # whether inherited kernels multiply bfloat16 on this machine
    notices: list[str] = field(default_factory=list)
    missing: dict[str, str] = field(default_factory=dict)
    areas: Sequence[Area] = ()  # those that have a kernel in a `file` built here

    @property
    def is_for_onnxruntime(self) -> bool:
        """Whether areas get kernels. For other targets, areas are only functions."""
        return self.target == "onnxruntime-cpu"

    def inherit(self, model: onnx.ModelProto, library: Path, is_trusted: bool) -> list[str]:
        """Keep using the kernels from an earlier conversion of the model, if it has any. Return
        notices.

        Kernels are machine code. So a library that this user did not compile is neither loaded nor
        given to the result, unless `is_trusted`; the returned notice says so. Only a copy of the
        library is used, so that its content cannot change meanwhile.
        """
        areas = [function for function in model.functions if function.domain == KERNELS]
        if not areas or not library.is_file() or not self.is_for_onnxruntime:
            return []
        file = known(library) or (snapshot(library) if is_trusted else None)
        if file is None:
            what = (
                f"{library} was not compiled by this user's fusionc, so it is neither loaded nor "
                "given to the result"
            )
            return [
                (
                    f"{what}; so the areas of the result run without kernels. If you know who made "
                    "the library, use --trust_kernels"
                )
            ]
        self.file = file
        self.inherited = library
        self.inherits_bfloat16 = has_bfloat16() and any(
            function.doc_string == NARROW_DOC for function in areas
        )
        return []

    def build(self, areas: Sequence[Area]) -> Mapping[str, str]:
        """Build the kernels of all areas. Return the name of each area without a kernel → the
        reason.
        """
        if self.inherited is not None:
            self.missing = dict.fromkeys(
                (area.name for area in areas), "the model has kernels already"
            )
            return self.missing
        self.file = None
        self.missing = {}
        self.areas = ()
        if not self.is_for_onnxruntime or not areas:
            return {}
        from fusionc.graph_kernel.c.compile import NoCompiler  # here, as few conversions need it
        from fusionc.graph_kernel.library.build_library import build

        try:
            built = build(
                areas, lambda done, of: self.tell(f"compiling kernels: part {done + 1} of {of}")
            )
        except NoCompiler as error:
            self.notices = [f"{error.what}: {error.hint}"]
            return {}
        self.file = built.library
        self.missing = built.failed
        self.areas = [area for area in areas if area.name not in built.failed]
        self.notices = [reason] if (reason := reason_against_keeping()) else []
        return self.missing

    def source(self, areas: Sequence[Area]) -> str:
        """The C text of the kernels; empty without a library."""
        from fusionc.graph_kernel.c.source import source

        return source(areas) if self.file is not None and areas else ""

    def require_loadable(self) -> None:
        """Raise FusioncError if onnxruntime cannot load the library. The message blames the
        compiler for a library that was built here, and another machine for an inherited one.
        """
        if self.file is None:
            return
        try:
            request("load_library", str(self.file.resolve()))
            return
        except RunError as error:
            said = f"onnxruntime says: {error}"
        if self.inherited is not None:
            what = (
                "the kernels next to the model cannot be loaded; perhaps they were made on another "
                "kind of machine"
            )
            hint = (
                "convert the original model again on this machine, or move the library away; then "
                "the areas run without kernels"
            )
            raise FusioncError(
                what, where=str(self.inherited), hint=f"nothing was written; {hint}. {said}"
            )
        from fusionc.graph_kernel.c.compile import compiler

        # Remove the library from the cache: another compiler may build a good one.
        self.file.unlink(missing_ok=True)
        raise FusioncError(
            (
                "the C compiler has built a library of kernels that cannot be loaded: "
                f"{shlex.join(compiler())}"
            ),
            where=str(self.file),
            hint="nothing was written; name another compiler in the environment variable CC. If "
            f"the kernels are for another machine, use --no-verify. {said}",
        )
