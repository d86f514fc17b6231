"""How numerical kernels are compiled, said once.

No fastmath and no parallel reductions: a kernel must give the same bits for a row whatever rows stand beside it.
The GIL is released, so that a stage's event loop breathes while a block is evaluated.
"""

from collections.abc import Callable
from typing import Any

import numba


def kernel(function: Callable[..., Any]) -> Callable[..., Any]:
    """Compile `function` with numba; the machine code is cached on disk beside the module."""
    compiled: Callable[..., Any] = numba.njit(function, cache=True, nogil=True, fastmath=False, error_model="numpy")
    return compiled
