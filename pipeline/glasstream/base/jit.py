"""How numerical kernels are compiled.

No fastmath and no parallel reductions: a kernel must give the same bits for a row whatever other rows the call has.
The GIL is released, so that a stage's event loop breathes while a block is evaluated.

The machine code is cached on disk next to the module. numba considers it stale when the time of the kernel's own file
has changed. Here it is stale when the content of that file has, or of a file from which that one imports, directly or
not: kernels contain the code of the kernels that they call, and the values of constants. A copy or another checkout of
the same files can use the cache.

Where a caller passes a constant, numba compiles the callee for this very value, and keeps all of these. Here it takes
the constant's type: a large kernel with many callers would be compiled many times over, for little.
"""

import hashlib
import re
import sys
from collections.abc import Callable, Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import Any

import numba
from numba.core.types.misc import unliteral

from glasstream.base.errors import SettingsError

Kernel = Callable[..., Any]


def kernel(function: Kernel) -> Kernel:
    """Compile `function` with numba."""
    return _compiled(function)


def bare_kernel(function: Kernel) -> Kernel:
    """Compile a kernel that makes no arrays and views: then none has its references counted.

    Elsewhere numba counts those of every array that is handed over, even by a call that is compiled into its caller:
    in a loop that does little else this takes most of the time (measured: 150 ns in place of 8).
    """
    return _compiled(function, _nrt=False)


def inlined(function: Kernel) -> Kernel:
    """Compile a part of kernels, always into them; bare."""
    return _compiled(function, _nrt=False, forceinline=True)


def _compiled(function: Kernel, **options: bool) -> Kernel:
    made: Kernel = numba.njit(function, cache=True, nogil=True, fastmath=False, error_model="numpy", **options)
    template = getattr(made, "get_call_template", None)
    if template is None:
        raise SettingsError(
            [
                "NUMBA_DISABLE_JIT: expected it to be unset or 0, because kernels use what only compiled code has, got "
                "another value; unset it for every worker, command and notebook"
            ]
        )

    def of_types(args: Sequence[Any], kws: Mapping[str, Any]) -> Any:
        return template(tuple(map(unliteral, args)), {name: unliteral(one) for name, one in kws.items()})

    made.get_call_template = of_types  # type: ignore[attr-defined]
    file = getattr(getattr(made, "_cache", None), "_cache_file", None)
    if file is not None:  # else this numba keeps it elsewhere
        file._source_stamp = _stamp(function.__module__)
    return made


@cache
def _stamp(module: str) -> str:
    """Return a digest of a module's file, and of those of its package from which it imports, directly or not."""
    package = re.escape(module.partition(".")[0])
    imports = re.compile(rf"^(?:from|import) ({package}[\w.]*)(?: import (?:\(([^)]*)\)|(.*)))?", re.MULTILINE)
    texts: dict[str, str] = {}
    waiting = [module]
    while waiting:
        name = waiting.pop()
        path = getattr(sys.modules.get(name), "__file__", None)
        if name not in texts and path is not None:
            texts[name] = Path(path).read_text(encoding="utf-8")
            for imported, several, one in imports.findall(texts[name]):
                waiting += [imported, *(f"{imported}.{part}" for part in re.findall(r"\w+", several or one))]
    return hashlib.blake2b(repr(sorted(texts.items())).encode()).hexdigest()
