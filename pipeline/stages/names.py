"""Topics by their full names, and the fingerprint that state is bound to."""

import platform
from importlib.metadata import version

from pipeline.errors import StateError
from pipeline.settings import Settings
from topics.progress_learner import Setting

_NUMERIC = ("river", "numpy", "numba")
"""Packages whose versions change numbers."""


def topic(settings: Settings, name: str) -> str:
    """The full name of a topic."""
    return settings.prefix + name


def fingerprint(settings: Settings) -> dict[str, Setting]:
    """Every setting and version that changes numbers."""
    versions: dict[str, Setting] = {f"version.{package}": version(package) for package in _NUMERIC}
    versions["version.python"] = ".".join(platform.python_version_tuple()[:2])
    return {**settings.fingerprint(), **versions}


def check_fingerprint(where: str, found: dict[str, Setting], settings: Settings, epoch: int) -> None:
    """Refuse to go on from state that was made under other settings.

    Raises
    ------
    StateError
        Naming every key that differs.
    """
    ours = fingerprint(settings)
    changed = [
        f"{key}: was {found.get(key)!r}, is {ours.get(key)!r}"
        for key in sorted(found.keys() | ours.keys())
        if found.get(key) != ours.get(key)
    ]
    if epoch != settings.epoch:
        changed.append(f"epoch: was {epoch}, is {settings.epoch}")
    if changed:
        raise StateError(
            f"{where}: expected the settings that the state was made under, but these differ: "
            f"{'; '.join(changed)}; set them back, or use another --prefix"
        )
