"""One sentence about an incident."""

import numpy as np

from glasstream.incidents.verdict import Judgement
from glasstream_topics.incidents import Affected, Onset

_FAULTS = {
    "missing": "{} is often missing",
    "constant": "{} has only one value",
    "shifted": "{} has other values",
    "alive": "{} came alive",
}


def summary(judgement: Judgement, onset: Onset, loss_name: str, before: float, after: float) -> str:
    """Return what happened, since when, and what it did to the loss."""
    row = f"row {onset.row:,}" + (f" ({utc(onset.ts)})" if onset.ts is not None else "")
    return f"{_what(judgement, f'at {row}', f'from {row} on')}; {_loss(loss_name, before, after)}."


def utc(ts: int) -> str:
    """Return a time in milliseconds since 1970 for people.

    >>> utc(1_767_225_840_000)
    '2026-01-01 00:04 UTC'
    """
    return f"{np.datetime_as_string(np.datetime64(ts, 'ms'), unit='m').replace('T', ' ')} UTC"


def _what(judgement: Judgement, at: str, since: str) -> str:
    """Return what happened at a row, or holds since then."""
    features = judgement.features
    match judgement.verdict:
        case "feature_broken":
            return f"{_broken([one for one in features if one.fault not in ('shifted', 'alive', None)])} {since}"
        case "feature_alive":
            return f"{_names([one for one in features if one.fault == 'alive'])} came alive {at}"
        case "data_moved":
            return f"{_names(features)} moved {at}, and the labels follow the same rule as before"
        case "concept_moved":
            return f"the labels follow another rule {since}, although the inputs are as before"
        case "labels_shifted":
            return f"the shares of the labels changed {at}"
        case "model_replaced":
            return f"the model got worse {at}, although rows with equal inputs have the same labels as before"
        case "reasoning_moved":
            names = _names(features)
            return f"the model relies differently on {names} {since}, although inputs and labels are as before"
        case _:
            return f"something changed {at}, and the evidence fits no single cause"


def _broken(features: list[Affected]) -> str:
    parts: list[str] = []
    done: set[str] = set()
    for one in features:
        if one.feature in done:
            continue
        done.add(one.feature)
        if one.fault == "swapped" and one.other is not None:
            done.add(one.other)
            parts.append(f"{' and '.join(sorted([one.feature, one.other]))} arrive swapped")
        elif one.fault == "scaled":
            parts.append(f"{one.feature} is multiplied by {one.factor:g}")
        else:
            parts.append(_FAULTS[one.fault or ""].format(one.feature))
    return _listed(parts)


def _names(features: list[Affected]) -> str:
    return _listed([one.feature for one in features])


def _listed(parts: list[str]) -> str:
    shown = parts[:3] + ([f"{len(parts) - 3} more"] if len(parts) > 3 else [])
    return shown[0] if len(shown) == 1 else f"{', '.join(shown[:-1])} and {shown[-1]}" if shown else "nothing"


def _loss(name: str, before: float, after: float) -> str:
    name = {"brier": "Brier", "zero_one": "zero-one", "cross_entropy": "cross-entropy"}.get(name, name)
    if abs(after - before) < 0.05 * max(abs(before), abs(after), 1e-12):
        return f"the {name} loss stayed at {after:.3g}"
    return f"the {name} loss {'rose' if after > before else 'fell'} from {before:.3g} to {after:.3g}"
