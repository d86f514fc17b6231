"""The kernels that the image compiles cover all choices. `tests.ops.test_image` checks that stages compile no more."""

from typing import Any

import msgspec
import pytest

from glasstream.app.configuration import choices_of
from glasstream.app.runner import precompile
from glasstream.app.runner.precompile import CASES, settings_of
from glasstream.detect.drift.settings import DETECTORS
from glasstream.explain.losses import LOSSES
from glasstream.flow.learner.warm_up import ROWS
from glasstream.flow.settings import Settings
from glasstream_topics.methods import METHODS

NO_KERNEL = {
    "drift.preset",  # stands for other settings
    "intake.format",  # decoding
    "intake.labels_format",
    "intake.nan",  # decoding
    "intake.unwrap",
    "intake.ts_unit",
    "limits.lag",  # who waits for whom
    "model.absent",  # what a trained model takes for an absent feature
    "notify.form",  # HTTP
    "notify.start",  # where reading begins
    "topics.partitioner",  # Python
}
"""Settings that choose between things, none of which is a kernel's."""


def _choices() -> dict[str, set[Any]]:
    """Return the choices of each setting."""
    found: dict[str, set[Any]] = {}
    for section in msgspec.structs.fields(Settings):
        if isinstance(section.type, type) and issubclass(section.type, msgspec.Struct):
            for field in msgspec.structs.fields(section.type):
                if choices := choices_of(field.type):
                    found[f"{section.name}.{field.name}"] = set(choices)
    return found


def test_each_choice_of_each_setting_is_compiled_ahead() -> None:
    used: dict[str, set[Any]] = {}
    for case in CASES:
        settings = settings_of(case)
        used.setdefault("drift.detector", set()).add(settings.drift.detector)
        for key in _choices():
            section, name = key.split(".")
            used.setdefault(key, set()).add(getattr(getattr(settings, section), name))
    tasks = {"classification" if case.target != "number" else "regression" for case in CASES}
    used["model.task"] = tasks
    used["explain.loss"] |= {"zero_one", "squared"}  # what None stands for
    lacking = {key: some - used[key] for key, some in _choices().items() if key not in NO_KERNEL and some - used[key]}
    assert not lacking
    assert set(LOSSES) <= used["explain.loss"]
    assert set(DETECTORS) <= used["drift.detector"]


def test_each_model_is_compiled_with_each_task_and_all_methods() -> None:
    found = {
        (case.settings["model.name"], case.target)
        for case in CASES
        if set(METHODS) <= set(case.settings["explain.methods"].split(","))
    }
    assert found >= {(model, target) for model in ("forest", "tree", "linear") for target in ("two", "three", "number")}


@pytest.mark.parametrize("case", [CASES[0], CASES[-1]], ids=["forest", "novelty"])
def test_a_case_goes_through_all_stages(case: precompile.Case) -> None:
    published = precompile.run(case)
    assert published["importance"] and published["predictions"] == ROWS and not published["events.dead"]
    assert ("novelty" in published) == ("novelty" in case.settings["explain.methods"])
