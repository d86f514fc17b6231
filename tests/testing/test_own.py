"""A user puts implementations of their own through the checks."""

import numpy as np

from glasstream.testing import check_detector, check_detector_bank, check_explainer, check_predictor, check_sampler
from glasstream.testing.discover import KINDS, all_checks, implementations
from glasstream.testing.streams import mixed_rows
from tests.support import own_implementations as own


def test_a_predictor_of_a_user_passes() -> None:
    check_predictor(own.Line({"size": 0.5, "weight": 0.25, "open": 0.125}), mixed_rows(40)[:, :3])


def test_a_sampler_of_a_user_passes() -> None:
    check_sampler(own.RowBefore)


def test_an_explainer_of_a_user_passes() -> None:
    check_explainer(own.LeaveOut, events=100)


def test_a_detector_of_a_user_passes() -> None:
    check_detector(own.Halves)


def test_a_bank_of_detectors_of_a_user_passes() -> None:
    check_detector_bank(own.HalvesOfEach)


def test_implementations_of_a_user_are_found_in_their_package() -> None:
    found = {
        kind: [one.__name__ for one in implementations(kind, "tests.support.own_implementations")] for kind in KINDS
    }
    assert found == {
        "predictor": ["Line"],
        "sampler": ["RowBefore"],
        "explainer": ["LeaveOut"],
        "detector": ["Halves"],
        "detector_bank": ["HalvesOfEach"],
    }


def test_a_check_may_be_asked_alone() -> None:
    rows = np.zeros((3, 1))
    for check in all_checks("predictor"):
        check(own.Line({"size": 0.5}), rows)
