"""Finds every implementation of a kind in a package, and every check of a kind, so that none is forgotten."""

import importlib
import inspect
import pkgutil
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Final

from glasstream.checks import banks, detectors, explainers, predictors, samplers
from glasstream.models.predictor import Predictor

SHELL: Final = ("brokers", "checks", "command", "plots", "stages", "transport")
"""Packages of `glasstream` without algorithms."""


@dataclass(frozen=True, slots=True)
class KindOf:
    """A kind of implementation: the protocol that its classes satisfy, and the checks that they must pass."""

    protocol: type
    checks: tuple[Callable[..., None], ...]


KINDS: Final[Mapping[str, KindOf]] = {
    "predictor": KindOf(Predictor, predictors.CHECKS),
    "sampler": KindOf(samplers.Sampler, samplers.CHECKS),
    "explainer": KindOf(explainers.Explainer, explainers.CHECKS),
    "detector": KindOf(detectors.Detector, detectors.CHECKS),
    "detector_bank": KindOf(banks.DetectorBank, banks.CHECKS),
}


def all_checks(kind: str) -> tuple[Callable[..., None], ...]:
    """The checks of a kind, one of `KINDS`.

    Predictors' checks take (predictor, rows), those of samplers a `Sampling`, of explainers an `Explaining`, of
    detectors what makes one, of banks of detectors a `Feeding`; each raises CheckFailed.

    >>> [check.__name__ for check in all_checks("detector")][:2]
    ['check_it_is_a_detector', 'check_the_same_numbers_raise_the_same_alarms']
    """
    return KINDS[kind].checks


def implementations(kind: str, package: str = "glasstream", but: tuple[str, ...] = SHELL) -> list[type]:
    """The classes of a kind that are defined in a package, in all its modules.

    A class is of a kind if it has the methods of the kind's protocol, they begin with the same parameters, and at least
    one of the protocol's other members can be seen in the class or in its `__init__` (if the protocol has others).
    Protocols and abstract classes are none.

    Parameters
    ----------
    kind
        One of `KINDS`.
    package
        The full name of a package, or of a module.
    but
        Packages below it that are not looked into, not even imported.

    Examples
    --------
    >>> [found.__name__ for found in implementations("explainer", "glasstream.estimators.ipfi")]
    ['IncrementalPFI']
    """
    found = {}
    for name in _modules(package, but):
        module = importlib.import_module(name)
        for one in vars(module).values():
            if inspect.isclass(one) and one.__module__ == name and satisfies(one, KINDS[kind].protocol):
                found[f"{name}.{one.__qualname__}"] = one
    return [found[name] for name in sorted(found)]


def satisfies(one: type, protocol: type) -> bool:
    """Whether a class is of the kind of a protocol, as said in `implementations`."""
    if getattr(one, "_is_protocol", False) or inspect.isabstract(one):
        return False
    members = {name: member for name, member in vars(protocol).items() if not name.startswith("_")}
    methods = {name: member for name, member in members.items() if inspect.isfunction(member)}
    others = members.keys() - methods.keys()
    alike = all(_begins_alike(getattr(one, name, None), method) for name, method in methods.items())
    return alike and (not others or any(_shows(one, name) for name in others))


def _shows(one: type, name: str) -> bool:
    """Whether an attribute is the class's own, is annotated there, or is named in its `__init__`."""
    if hasattr(one, name) or any(name in vars(parent).get("__annotations__", ()) for parent in one.__mro__):
        return True
    code = getattr(getattr(one, "__init__", None), "__code__", None)
    return code is not None and name in code.co_names


def _begins_alike(method: Any, wanted: Any) -> bool:
    if not callable(method):
        return False
    try:
        names = list(inspect.signature(method).parameters)
    except ValueError:  # some extension types tell no signature
        return True
    named = [one.name for one in inspect.signature(wanted).parameters.values() if one.kind is one.POSITIONAL_OR_KEYWORD]
    return names[: len(named)] == named


def _modules(package: str, but: tuple[str, ...]) -> list[str]:
    module = importlib.import_module(package)
    names = [package]
    for one in pkgutil.iter_modules(getattr(module, "__path__", ()), f"{package}."):
        if one.name.rpartition(".")[2] not in but:
            names += _modules(one.name, ()) if one.ispkg else [one.name]
    return names
