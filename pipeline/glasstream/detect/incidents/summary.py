"""One sentence about an incident."""

from collections.abc import Sequence
from typing import Final

import numpy as np

from glasstream.detect.incidents.verdict import BROKEN, MATTERS, Judgement
from glasstream_topics.incidents import UNLABELLED, Affected, Evidence, Onset, Segment, Where

SEGMENT_WORSE: Final = "segment_worse"
"""Verdict on a rise of the loss in one segment of the events."""

_FAULTS = {
    "missing": "{} is often missing",
    "constant": "{} has only one value",
    "shifted": "{} has other values",
    "alive": "{} came alive",
}
_OF_TWO = {"swapped": "{} arrive swapped", "apart": "{} no longer go together"}


def summary(
    judgement: Judgement,
    onset: Onset,
    loss_name: str,
    before: float | None,
    after: float | None,
    muted: Sequence[str],
    where: Where | None = None,
) -> str:
    """Return what happened, since when, what it did to the loss and where, and the features not watched any more."""
    if judgement.verdict == SEGMENT_WORSE and where is not None:
        return _of_segment(where.segments[0], onset, loss_name)
    what, more = _what(judgement)
    time = f" ({utc(onset.ts)})" if onset.ts is not None else ""
    parts = [f"{what} since row {onset.row:,}{time}{more}"]
    if judgement.rule == UNLABELLED:
        parts = [f"in events without labels, {what} since event {onset.row:,}{time}{more}"]
        parts += _where(where) if where is not None else []
        steps = {one.feature or "": _step(one) for one in judgement.evidence if one.side == "reasoning"}
        more_on, less_on = ([name for name in steps if sign * steps[name] > 0.0] for sign in (1, -1))
        parts += _relies("the model", more_on, less_on)
    if before is not None and after is not None:
        parts.append(_loss(loss_name, before, after))
    risen = before is not None and after is not None and after > before  # else the rise was one for a while
    if where is not None and judgement.rule != UNLABELLED and (risen or where.of != "loss"):
        parts += _where(where)
    if muted:
        parts.append(f"further moves of {_listed([*muted])} alone open no incident")
    return f"{'; '.join(parts)}."


def _of_segment(segment: Segment, onset: Onset, loss_name: str) -> str:
    """Return that the loss rose in one segment."""
    time = f" ({utc(onset.ts)})" if onset.ts is not None else ""
    what = f"the {_called(loss_name)} loss rose from {segment.loss_before:.3g} to {segment.loss_since:.3g}"
    where = f"in {_percent(segment.share_since)} of the events since row {onset.row:,}{time}: {segment.text}"
    return f"{what} {where}; elsewhere it rose by less than a quarter as much."


def of_replacement(
    onset: Onset, loss_name: str, before: float | None, after: float | None, more: Sequence[str], less: Sequence[str]
) -> str:
    """Return that the model was replaced, when, and what that did to the loss and to what the model relies on."""
    time = f" ({utc(onset.ts)})" if onset.ts is not None else ""
    parts = [f"the model was replaced at row {onset.row:,}{time}"]
    if before is not None and after is None:
        parts.append(f"the {_called(loss_name)} loss was {before:.3g}")
    elif before is not None and after is not None:
        parts.append(_loss(loss_name, before, after))
    return f"{'; '.join([*parts, *_relies('it', more, less)])}."


def _where(where: Where) -> list[str]:
    """Return a phrase about where the change is; none if that is not known."""
    if where.extent == "everywhere":
        return ["the loss rose everywhere"]
    if not where.segments:
        return []
    names = " or ".join(f"({one.text})" if len(where.segments) > 1 else one.text for one in where.segments)
    former, share = (
        _percent(sum(shares))
        for shares in zip(*((one.share_before, one.share_since) for one in where.segments), strict=True)
    )
    if where.of == "events":
        return [f"{share} of the events, before {former}, have {names}"]
    parts = [one.carried for one in where.segments if one.carried is not None]
    if len(parts) < len(where.segments):
        return [f"the loss rose in {share} of the events: {names}"]
    return [f"{_percent(min(1.0, sum(parts)))} of the rise comes from {share} of the events: {names}"]


def _percent(share: float) -> str:
    return f"{100.0 * share:.{'0' if share >= 0.0095 else '1'}f} %"


def _relies(who: str, more: Sequence[str], less: Sequence[str]) -> list[str]:
    """Return phrases that name the features on which the model relies more, and less; an empty list without any."""
    relies = [f"{word} on {_listed([*names])}" for word, names in (("more", more), ("less", less)) if names]
    return [f"{who} relies {' and '.join(relies)}"] if relies else []


def _step(one: Evidence) -> float:
    return 0.0 if one.before is None or one.after is None else one.after - one.before


def utc(ts: int) -> str:
    """Return a time in milliseconds since 1970 for people.

    >>> utc(1_767_225_840_000)
    '2026-01-01 00:04 UTC'
    """
    return f"{np.datetime_as_string(np.datetime64(ts, 'ms'), unit='m').replace('T', ' ')} UTC"


def _what(judgement: Judgement) -> tuple[str, str]:
    """Return what happened, and what to add after the row."""
    features = judgement.features
    match judgement.verdict:
        case "feature_broken":
            return _listed(_parts([one for one in features if one.fault in BROKEN])), ""
        case "feature_alive":
            return f"{_names([one for one in features if one.fault == 'alive'])} came alive", ""
        case "data_moved":
            moved = [one for one in features if one.fault != "apart"]
            parts = [f"{_names(moved)} moved"] if moved else []
            parts += _parts([one for one in features if one.fault == "apart"])
            if judgement.rule == UNLABELLED:
                return _listed(parts), ""
            if judgement.rule == "same":
                return _listed(
                    parts
                ), f", and labels at equal values are as before (within {MATTERS} standard deviations)"
            return _listed(parts), ", and whether the rule of the labels changed is not known yet"
        case "concept_moved":
            if len(features) == 1 and features[0].fault is None:
                return f"the labels follow another rule, or {features[0].feature} is broken,", ""
            return "the labels follow another rule", ", although the inputs are as before" if judgement.powerful else ""
        case "labels_shifted":
            return "the shares of the labels changed", ""
        case "model_replaced":
            return "the model got worse, or the labels changed in a way that no single feature shows,", ""
        case "reasoning_moved":
            as_before = "the inputs" if judgement.rule == UNLABELLED else "inputs and labels"
            what = f"the model relies differently on {_names(features)}"
            return what, f", although {as_before} are as before" if judgement.powerful else ""
        case _:
            moved = [one for one in features if one.fault is not None]
            if moved:
                perhaps = any(one.verdict == "concept_moved" for one in judgement.alternatives)
                rule = "whether the labels follow another rule is not known yet"
                return f"{_names(moved)} changed", f", and {rule if perhaps else 'the evidence fits no single cause'}"
            if judgement.worse:
                return "the model got worse, or the labels follow another rule,", ", and which of them is not known yet"
            return "something changed", ", and the evidence fits no single cause"


def _parts(features: list[Affected]) -> list[str]:
    """Return what happened to each feature, or to two features together."""
    parts: list[str] = []
    done: set[str] = set()
    for one in features:
        if one.feature in done:
            continue
        done.add(one.feature)
        if one.fault in _OF_TWO and one.other is not None:
            done.add(one.other)
            parts.append(_OF_TWO[one.fault].format(" and ".join(sorted([one.feature, one.other]))))
        elif one.fault == "scaled":
            between = f"({one.factor_low:g} to {one.factor_high:g})"
            parts.append(f"{one.feature} is multiplied by about {one.factor:g} {between}")
        else:
            parts.append(_FAULTS[one.fault or ""].format(one.feature))
    return parts


def _names(features: list[Affected]) -> str:
    return _listed([one.feature for one in features])


def _listed(parts: list[str]) -> str:
    shown = parts[:3] + ([f"{len(parts) - 3} more"] if len(parts) > 3 else [])
    return shown[0] if len(shown) == 1 else f"{', '.join(shown[:-1])} and {shown[-1]}" if shown else "nothing"


def _loss(name: str, before: float, after: float) -> str:
    name = _called(name)
    if abs(after - before) < 0.05 * max(abs(before), abs(after), 1e-12):
        return f"the {name} loss stayed at {after:.3g}"
    return f"the {name} loss {'rose' if after > before else 'fell'} from {before:.3g} to {after:.3g}"


def _called(loss: str) -> str:
    return {"brier": "Brier", "zero_one": "zero-one", "cross_entropy": "cross-entropy"}.get(loss, loss)
