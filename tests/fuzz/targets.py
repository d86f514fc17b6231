"""Discover the targets: every class of a module of this folder that derives from `Target`."""

import importlib
import pkgutil

from tests import fuzz
from tests.fuzz.target import Target

_FRAME = frozenset({"__main__", "harness", "mutations", "target", "targets"})


def targets() -> list[type[Target]]:
    """Return all targets, in the order of their names."""
    found: set[type[Target]] = set()
    for module in pkgutil.iter_modules(fuzz.__path__):
        if module.name in _FRAME or module.name.startswith("test_"):
            continue
        names = vars(importlib.import_module(f"tests.fuzz.{module.name}")).values()
        found |= {
            kind for kind in names if isinstance(kind, type) and issubclass(kind, Target) and hasattr(kind, "name")
        }
    return sorted(found, key=lambda kind: kind.name)
