"""The doctor says before a restart whether the stages could open their states."""

from typing import Any

import pytest

from glasstream.app.configuration import load
from glasstream.app.operate.doctor.seals import sealed_states
from tests.support.sealed_states import NEW, OLD, aggregated, watched

SETTINGS = load(assignments=["topics.events=1"])
TOPICS = ("glasstream.progress.aggregator", "glasstream.progress.novelty")


@pytest.mark.parametrize(("place", "save"), list(enumerate((aggregated, watched))))
def test_the_doctor_opens_what_is_sealed(place: int, save: Any) -> None:
    def findings(saved_with: Any, key: Any) -> list[tuple[str, str]]:
        read = {(name, 0): {} for name in TOPICS} | {(TOPICS[place], 0): save(saved_with)}
        return [(one.level, one.what) for one in sealed_states(SETTINGS, key, read)]

    assert findings(OLD, OLD) == []
    ((level, text),) = findings(OLD, (NEW, OLD))
    assert level == "ok" and "sealed with an older key" in text
    ((level, text),) = findings(OLD, NEW)
    assert level == "fail" and "HMAC does not match" in text
    ((level, text),) = findings(None, OLD)
    assert level == "fail" and "saved without an HMAC key" in text and "--set epoch=N" in text
