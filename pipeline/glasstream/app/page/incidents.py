"""Bounded list of a stream's incidents for the page, and what to do about each verdict."""

from collections.abc import Mapping, Sequence
from typing import Final

import msgspec

from glasstream_topics.incidents import Incident

MOST: Final = 100
"""Largest number of incidents to keep."""
MOST_BYTES: Final = 512 * 1024
"""Largest size of the kept incidents as JSON. One is kept in any case."""

ADVICE: Final[Mapping[str, str]] = {
    "feature_broken": (
        "Repair the source of the affected features: look for a change of unit, a renamed column, a default value or a "
        "lost sensor at that time. Until then, do not trust predictions that rely on them. The model has learned from "
        "the broken values: if its loss does not fall again after the repair, reset the stream."
    ),
    "feature_alive": (
        "Check that the new values are meant to be there. If they are, the model learns them by itself; watch the loss."
    ),
    "data_moved": (
        "Find out why the inputs differ: a new population, season or source, or a fault that changes a part of the "
        "values. If labels at equal values are as before, no immediate action is needed. If that is not known "
        "yet, watch the loss."
    ),
    "concept_moved": (
        "If a single feature is named, check its source first. Compare the effect curves before and after, and ask the "
        "process owner. If the loss does not fall again by itself, let the model forget faster, or reset the stream."
    ),
    "labels_shifted": (
        "Check the source of the labels first, then thresholds and decisions that assume the old shares."
    ),
    "model_replaced": (
        "Check whether the model, its state or its settings were replaced at that time, and whether the labels since "
        "then are right. If the model got worse by itself, use a forest, which is steadier than a single adaptive tree."
    ),
    "segment_worse": (
        "Look at events of this segment before and since: their labels, their inputs, and where they come from. If the "
        "model does not learn, retrain it with them."
    ),
    "model_pushed": (
        "Compare loss, importance and effect curves before and after. If the new model is worse, push the earlier one "
        "again by its digest, which `glasstream model list` shows."
    ),
    "reasoning_moved": "Check whether the new reasons make sense and may be used; look for redundant features.",
    "unclear": "Look at the series that changed, and at deployments and upstream jobs at that time.",
}
"""What to do about each verdict. `python -m glasstream.app.reference` writes it into `ops/docs/incidents.md`, too."""

_UNKNOWN = "A newer release wrote this verdict. Look at the series that changed, and update the page."


def advice(verdict: str) -> str:
    """Return what to do about a verdict; later releases may add verdicts."""
    return ADVICE.get(verdict, _UNKNOWN)


class Incidents:
    """The newest record of each incident of a stream. Beyond the bounds, the oldest incident that is not open goes
    first.

    Attributes
    ----------
    total
        Number of incidents so far, dropped ones included.
    version
        Counter that rises with every record.
    """

    def __init__(self) -> None:
        self.total = 0
        self.version = 0
        self._kept: dict[int, Incident] = {}
        self._sizes: dict[int, int] = {}
        self._versions: dict[int, int] = {}

    def take(self, record: Incident) -> bool:
        """Add a record, and return False if it is older than the known one of that incident."""
        known = self._kept.get(record.incident)
        if known is not None and record.row < known.row:
            return False
        self.version += 1
        self.total = max(self.total, record.incident)
        self._kept[record.incident] = record
        self._sizes[record.incident] = len(msgspec.json.encode(record))
        self._versions[record.incident] = self.version
        while len(self._kept) > MOST or (sum(self._sizes.values()) > MOST_BYTES and len(self._kept) > 1):
            number = min(self._kept, key=lambda one: (self._kept[one].status == "open", one))
            for column in (self._kept, self._sizes, self._versions):
                del column[number]
        return True

    def numbers(self) -> list[int]:
        """Return the numbers of the kept incidents in ascending order."""
        return sorted(self._kept)

    def since(self, version: int) -> Sequence[Incident]:
        """Return the kept incidents that have changed since a version, in the order of their numbers."""
        return [self._kept[number] for number in self.numbers() if self._versions[number] > version]
