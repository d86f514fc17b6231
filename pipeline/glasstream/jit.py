"""How numerical kernels are compiled, said once.

No fastmath and no parallel reductions: a kernel must give the same bits for a row whatever rows stand beside it.
The GIL is released, so that a stage's event loop breathes while a block is evaluated.

The machine code is cached on disk beside the module. numba takes it for stale when the kernel's own file has changed;
here also when the file of a kernel that it calls has. A constant of another file is not noticed.
"""

from collections.abc import Callable
from typing import Any

import numba

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
    file = _cache_file(made)
    if file is not None:
        called = (_cache_file(function.__globals__.get(name)) for name in function.__code__.co_names)
        file._source_stamp = (file._source_stamp, *(one._source_stamp for one in called if one is not None))
    return made


def _cache_file(kernel: Any) -> Any:
    """numba's own handle of a kernel's file; None for what is no kernel, or a numba that keeps it elsewhere."""
    return getattr(getattr(kernel, "_cache", None), "_cache_file", None)
