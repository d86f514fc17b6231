"""How numerical kernels are compiled.

No fastmath and no parallel reductions: a kernel must give the same bits for a row whatever other rows the call has.
The GIL is released, so that a stage's event loop breathes while a block is evaluated.

The machine code is cached on disk next to the module. numba considers it stale when the time of the kernel's own file
has changed. Here it is stale when the content of that file has, or of a file from which that one imports, directly or
not: kernels contain the code of the kernels that they call, and the values of constants. A copy or another checkout of
the same files can use the cache.

Where a caller passes a constant, numba compiles the callee for this very value, and keeps all of these. Here it takes
the constant's type: a large kernel with many callers would be compiled many times over, for little.

For each kernel, numba makes machine code, a wrapper for Python, one for C, and a file in the cache, even if only other
kernels call it. Here, a kernel that others call becomes a part of them: it is optimised and made machine code only with
them. This halves the time of a first start, and the machine code is as fast (measured).

Until the cache has a process's kernels, `interpret` lets it run them as plain Python, slowly but with the same bits: a
first run shows results at once, while another process fills the cache.
"""

import hashlib
import math
import re
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import cache, partial
from pathlib import Path
from types import FunctionType, SimpleNamespace
from typing import Any, Final

import numba
import numpy as np
from numba.core import event
from numba.core.codegen import JITCodeLibrary
from numba.core.compiler import Compiler
from numba.core.types.misc import unliteral

from glasstream.base.errors import SettingsError

Kernel = Callable[..., Any]
_KERNELS: Final[list[Any]] = []


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
    options |= {"nogil": True, "fastmath": False, "no_cfunc_wrapper": True}
    made: Kernel = numba.njit(function, cache=True, error_model="numpy", **options)
    part = numba.njit(function, pipeline_class=_Parts, error_model="numpy", no_cpython_wrapper=True, **options)
    template = getattr(part, "get_call_template", None)
    if template is None:
        raise SettingsError(
            [
                "NUMBA_DISABLE_JIT: expected it to be unset or 0, because kernels use what only compiled code has, got "
                "another value; unset it for every worker, command and notebook"
            ]
        )

    def of_types(args: Sequence[Any], kws: Mapping[str, Any]) -> Any:
        return template(tuple(map(unliteral, args)), {name: unliteral(one) for name, one in kws.items()})

    # What numba asks for when another kernel calls this one.
    made.get_call_template, made.get_overload = of_types, part.get_overload  # type: ignore[attr-defined]
    made.part = part  # type: ignore[attr-defined]
    file = getattr(getattr(made, "_cache", None), "_cache_file", None)
    if file is not None:  # else this numba keeps it elsewhere
        file._source_stamp = _stamp(function.__module__)
    _KERNELS.append(made)
    return made


class _Part(JITCodeLibrary):
    """Code of a part: it is linked with that of its own parts, but not optimised, and never made machine code."""

    def _optimize_final_module(self) -> None:
        pass

    def _finalize_final_module(self) -> None:
        self._finalize_dynamic_globals()
        self._verify_declare_only_symbols()
        self._finalized = True


class _Parts(Compiler):
    """Compiler of parts."""

    def __init__(
        self, typing: Any, target: Any, library: None, args: Any, return_type: Any, flags: Any, variables: Any
    ) -> None:
        flags.no_compile = True
        part = _Part(target.codegen(), "part")
        super().__init__(typing, target, part, args, return_type, flags, variables)

    def compile_extra(self, function: Kernel) -> Any:
        """Compile `function` so far that kernels can call it."""
        made = super().compile_extra(function)
        entry: Kernel = [].append  # never called: numba tells parts apart by a built-in function of each
        self.state.targetctx.insert_user_function(entry, made.fndesc, [made.library])
        return made._replace(entry_point=entry)


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


class NotCachedError(BaseException):
    """A kernel is not in the cache. No handler of errors between the kernel and `from_cache` may catch this."""


@contextmanager
def from_cache() -> Iterator[None]:
    """Load kernels, but compile none.

    Raises
    ------
    NotCachedError
        A kernel is not in the cache.
    """
    refusal = _Refusal()
    event.register("numba:compile", refusal)
    try:
        yield
    finally:
        event.unregister("numba:compile", refusal)


class _Refusal(event.Listener):
    def on_start(self, event: Any) -> None:
        raise NotCachedError

    def on_end(self, event: Any) -> None:
        pass


def interpret() -> None:
    """Run all kernels of the modules that are loaded as plain Python until `compiled`.

    The results are the same, but for GBMAP's, which sum over rows with NumPy's functions. A kernel that runs then ends
    as it began, so both can be called whatever other threads do.
    """
    np.seterr(divide="ignore", over="ignore", invalid="ignore")  # compiled code does not warn
    forms: dict[int, Kernel] = {}
    spaces: dict[int, tuple[Mapping[str, Any], dict[str, Any]]] = {}
    for made in _KERNELS:
        function = made.py_func
        _, space = spaces.setdefault(id(function.__globals__), (function.__globals__, {}))
        forms[id(made)] = FunctionType(
            function.__code__, space, function.__name__, function.__defaults__, function.__closure__
        )
    for given, space in spaces.values():
        space |= {name: forms.get(id(value), value) for name, value in given.items()}
        if "math" in space:
            space["math"] = _MATH
    for made in _KERNELS:
        form = {"__call__": staticmethod(forms[id(made)]), "__slots__": ()}
        made.__class__ = type(made.__name__, (numba.core.registry.CPUDispatcher,), form)


def compiled() -> None:
    """Run all kernels as machine code again."""
    np.seterr(divide="warn", over="warn", invalid="warn")
    for made in _KERNELS:
        made.__class__ = numba.core.registry.CPUDispatcher


def cache_folder() -> str:
    """Return a folder of the cache."""
    folder: str = _KERNELS[0]._cache.cache_path
    return folder


def _unbounded(function: Kernel, of_numpy: Kernel, *numbers: float) -> float:
    """Return what a function of C returns, where that of Python raises an error: an infinity, or NaN."""
    try:
        return float(function(*numbers))
    except (OverflowError, ValueError):
        return float(of_numpy(*numbers))


_MATH: Final = SimpleNamespace(
    **{
        **vars(math),
        "exp": partial(_unbounded, math.exp, np.exp),
        "log": partial(_unbounded, math.log, np.log),
        "log2": partial(_unbounded, math.log2, np.log2),
        "pow": partial(_unbounded, math.pow, np.power),
        "sqrt": partial(_unbounded, math.sqrt, np.sqrt),
    }
)
"""What kernels know as `math` while they are plain Python."""
