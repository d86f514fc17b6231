"""Find every implementation of a kind in a package, and every check of a kind."""

import importlib
import inspect
import pkgutil
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Final

from glasstream.explain.estimators.explainer import Explainer
from glasstream.models.predictors.predictor import Predictor
from glasstream.testing import banks, detectors, explainers, predictors, samplers

SHELL: Final = ("app", "kafka", "testing")
"""Packages of `glasstream` without algorithms for any stream."""


@dataclass(frozen=True, slots=True)
class KindOf:
    """A kind of implementation: the protocol that its classes satisfy, and the checks that they must pass."""

    protocol: type
    checks: tuple[Callable[..., None], ...]


KINDS: Final[Mapping[str, KindOf]] = {
    "predictor": KindOf(Predictor, predictors.CHECKS),
    "sampler": KindOf(samplers.Sampler, samplers.CHECKS),
    "explainer": KindOf(Explainer, explainers.CHECKS),
    "detector": KindOf(detectors.Detector, detectors.CHECKS),
    "detector_bank": KindOf(banks.DetectorBank, banks.CHECKS),
}


def all_checks(kind: str) -> tuple[Callable[..., None], ...]:
    """Return the checks of a kind, one of `KINDS`.

    Each check raises CheckFailed. The arguments of a check depend on the kind: (predictor, rows) for predictors, a
    `Sampling` for samplers, an `Explaining` for explainers, a function that returns a detector for detectors, and a
    `Feeding` for banks of detectors.

    >>> [check.__name__ for check in all_checks("detector")][:2]
    ['check_it_is_a_detector', 'check_the_same_numbers_raise_the_same_alarms']
    """
    return KINDS[kind].checks


def implementations(kind: str, package: str = "glasstream", but: tuple[str, ...] = SHELL) -> list[type]:
    """Return the classes of a kind that the modules of a package define.

    A class belongs to a kind if it has the methods of the kind's protocol and these begin with the same parameters. If
    the protocol has other members, at least one of them must also appear in the class or in its `__init__`. Protocols
    and abstract classes do not count.

    Parameters
    ----------
    kind
        One of `KINDS`.
    package
        Full name of a package or of a module.
    but
        Subpackages to skip; they are not even imported.

    Examples
    --------
    >>> [found.__name__ for found in implementations("explainer", "glasstream.explain.estimators.ipfi")]
    ['IncrementalPFI']
    """
    found = {}
    for name in _modules(package, but):
        module = importlib.import_module(name)
        for one in vars(module).values():
            if inspect.isclass(one) and one.__module__ == name and satisfies(one, KINDS[kind].protocol):
                found[f"{name}.{one.__qualname__}"] = one
    return [found[name] for name in sorted(found)]


def satisfies(kind: type, protocol: type) -> bool:
    """Return whether a class satisfies a protocol, by the rules of `implementations`."""
    if getattr(kind, "_is_protocol", False) or inspect.isabstract(kind):
        return False
    members = {name: member for name, member in vars(protocol).items() if not name.startswith("_")}
    methods = {name: member for name, member in members.items() if inspect.isfunction(member)}
    others = members.keys() - methods.keys()
    alike = all(_begins_alike(getattr(kind, name, None), method) for name, method in methods.items())
    return alike and (not others or any(_shows(kind, name) for name in others))


def _shows(one: type, name: str) -> bool:
    """Return whether an attribute is defined in the class, annotated there, or named in its `__init__`."""
    if hasattr(one, name) or any(name in vars(parent).get("__annotations__", ()) for parent in one.__mro__):
        return True
    code = getattr(getattr(one, "__init__", None), "__code__", None)
    return code is not None and name in code.co_names


def _begins_alike(method: Any, wanted: Any) -> bool:
    if not callable(method):
        return False
    try:
        names = list(inspect.signature(method).parameters)
    except ValueError:  # some extension types have no signature
        return True
    named = [one.name for one in inspect.signature(wanted).parameters.values() if one.kind is one.POSITIONAL_OR_KEYWORD]
    return names[: len(named)] == named


def _modules(package: str, but: tuple[str, ...], below: str = "") -> list[str]:
    """Return the modules of a package; `but` and `below` are names relative to it."""
    name = f"{package}.{below}".rstrip(".")
    names = [name]
    for one in pkgutil.iter_modules(getattr(importlib.import_module(name), "__path__", ()), f"{name}."):
        relative = one.name.removeprefix(f"{package}.")
        if relative not in but:
            names += _modules(package, but, relative) if one.ispkg else [one.name]
    return names
