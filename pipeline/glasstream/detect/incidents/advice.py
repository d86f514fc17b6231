"""What to do about an incident: a decision table over verdict, loss and recovery; `ops/docs/incidents.md` shows it."""

from typing import Final

import msgspec

from glasstream.detect.incidents.alarm import JUDGED_AGAIN
from glasstream.detect.incidents.verdict import BROKEN, Judgement
from glasstream_topics.incidents import Advice, Incident

_HARMED: Final = 1.1
"""How many times the loss before is the loss of a model that is worse, although no test says so."""
_RECOVERED: Final = 0.5
"""Part of the rise of the loss from which on a model that learns is adapting."""


_EXPLAINED: Final = frozenset(("data_moved", "labels_shifted"))
"""Verdicts in which the loss is that which is expected for such rows."""


MeanLosses = tuple[float | None, float | None]
"""Mean losses before a row and since; None if not known."""


def advise(
    judgement: Judgement,
    status: str,
    recovered: float | None,
    losses: MeanLosses,
    *,
    labelled: bool,
    learns: bool,
    rows: int,
) -> Advice:
    """Return what to do about an incident.

    Parameters
    ----------
    recovered
        Part of the rise of the loss that has been recovered; None if that is not known.
    losses
        Those of the onset.
    labelled
        Whether the incident is about rows with labels.
    learns
        Whether the model learns the rows.
    rows
        Number of rows since the alarm.
    """
    suspects = [one.feature for one in judgement.features if one.fault in BROKEN]
    if judgement.verdict == "concept_moved" and len(judgement.features) == 1:
        suspects = [judgement.features[0].feature]
    if status == "over":
        action = "none"
    elif suspects:
        action = "fix_input"
    elif not labelled:
        action = "wait"
    elif judgement.verdict in _EXPLAINED and judgement.rule == "same":
        action = "none"
    elif status == "normal" and not learns and _harmed(losses):
        action = "retrain"
    elif not judgement.worse:
        action = "none"
    elif judgement.verdict in _EXPLAINED:
        action = "wait"
    elif not learns:
        action = "retrain"
    elif rows < JUDGED_AGAIN or (recovered or 0.0) >= _RECOVERED:
        action = "wait"
    else:
        action = "retrain" if judgement.verdict == "model_replaced" else "reset"
    return Advice(action, suspects if action == "fix_input" else [], recovered)


def _harmed(losses: MeanLosses) -> bool:
    before, after = losses
    return before is not None and after is not None and after > _HARMED * before


def of_model(losses: MeanLosses) -> Advice:
    """Return what to do about a model that was pushed, given the losses of its first row."""
    if None in losses:
        return Advice("wait", [], None)
    return Advice("retrain" if _harmed(losses) else "none", [], None)


def replaced(incident: Incident) -> Incident:
    """Return the last record of an incident that the replacement of the model has ended, with what is left to do."""
    if incident.advice is None or incident.advice.action == "fix_input":
        return incident
    return msgspec.structs.replace(incident, advice=Advice("none", [], None))
