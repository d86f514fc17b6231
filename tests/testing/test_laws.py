"""Every predictor, sampler, explainer and detector of the package keeps every law of its kind."""

from collections.abc import Iterable
from importlib import import_module
from typing import Any

import pytest

from glasstream.testing.discover import KINDS, all_checks, implementations
from tests.support.law_examples import BANKS, DETECTORS, EXPLAINERS, PREDICTORS, REPRESENTATIVE, SAMPLERS


def names(examples: Iterable[str]) -> list[Any]:
    return [pytest.param(one, marks=() if one in REPRESENTATIVE else pytest.mark.slow) for one in examples]


@pytest.mark.parametrize("name", names(PREDICTORS))
def test_a_predictor_keeps_every_law(name: str) -> None:
    predictor, rows = PREDICTORS[name]()
    for check in all_checks("predictor"):
        check(predictor, rows)


@pytest.mark.parametrize("name", SAMPLERS)
def test_a_sampler_keeps_every_law(name: str) -> None:
    for check in all_checks("sampler"):
        check(SAMPLERS[name])


@pytest.mark.parametrize("name", names(EXPLAINERS))
def test_an_explainer_keeps_every_law(name: str) -> None:
    for check in all_checks("explainer"):
        check(EXPLAINERS[name])


@pytest.mark.parametrize("name", DETECTORS)
def test_a_detector_keeps_every_law(name: str) -> None:
    for check in all_checks("detector"):
        check(DETECTORS[name])


@pytest.mark.parametrize("name", names(BANKS))
def test_a_bank_of_detectors_keeps_every_law(name: str) -> None:
    for check in all_checks("detector_bank"):
        check(BANKS[name])


def found(kind: str) -> set[type]:
    """Implementations of the application and of the laboratory. Models of experiments take rows of one form only."""
    return {*implementations(kind), *implementations(kind, "glasstream_lab", ("papers",))}


@pytest.mark.parametrize("kind", KINDS)
def test_every_implementation_has_an_example(kind: str) -> None:
    """Whoever writes a new one is told here to give it an example in tests/support/law_examples.py."""
    examples = {
        "predictor": [type(PREDICTORS[name]()[0]) for name in PREDICTORS.keys() & REPRESENTATIVE],
        "sampler": [type(sampling.make()) for sampling in SAMPLERS.values()],
        "explainer": [type(EXPLAINERS[name].beside()) for name in EXPLAINERS.keys() & REPRESENTATIVE],
        "detector": [type(make()) for make in DETECTORS.values()],
        "detector_bank": [type(feeding.make()) for feeding in BANKS.values()],
    }
    missing = found(kind) - {*examples[kind]}
    assert not missing, f"no example in tests/support/law_examples.py: {sorted(one.__qualname__ for one in missing)}"


def test_what_is_known_to_exist_is_found() -> None:
    names = {kind: {one.__name__ for one in found(kind)} for kind in KINDS}
    assert names["predictor"] >= {"ClassificationTrees", "RegressionTrees", "Transformed", "GenericPredictor"}
    assert names["sampler"] >= {"Reservoir", "Grids", "ConditionalStorage", "Background"}
    assert names["detector_bank"] >= {"Adwin", "Kswin", "PageHinkley"}
    assert names["explainer"] >= {"IncrementalPFI", "IncrementalSAGE", "IncrementalPDP", "IntervalPFI", "WindowSAGE"}


@pytest.mark.parametrize("kind", KINDS)
def test_every_check_is_in_the_list_of_its_kind(kind: str) -> None:
    """A check that nobody runs is none."""
    (module,) = {check.__module__ for check in all_checks(kind)}
    own = {name for name, one in vars(import_module(module)).items() if getattr(one, "__module__", "") == module}
    written = {name for name in own if name.startswith("check_")} - {f"check_{kind}"}
    assert {check.__name__ for check in all_checks(kind)} == written
