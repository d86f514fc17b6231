"""Parts of the JSON messages to a viewer."""

from collections.abc import Iterable, Sequence
from dataclasses import asdict
from math import isnan
from typing import Any

import numpy as np

from glasstream.app.page.explained import Explained, Row
from glasstream.app.page.history import Bins
from glasstream.app.page.incidents import advice
from glasstream.app.page.store import Store
from glasstream.app.page.stream import Curve, Method, Point, StreamHistory
from glasstream.app.page.summary import Summary
from glasstream.detect.baselines import Standing
from glasstream_topics.attributions import Attribution
from glasstream_topics.comparisons import Comparison
from glasstream_topics.drift import Curve as DriftCurve
from glasstream_topics.drift import Drift
from glasstream_topics.groups import Group, Groups, Mean
from glasstream_topics.incidents import VERDICTS, Incident
from glasstream_topics.methods import label_of, meaning_of
from glasstream_topics.novelty import Novelty
from glasstream_topics.segments import Segments


def outline_part(store: Store) -> dict[str, Any]:
    """Return what concerns all streams, without their names."""
    reading = store.reading
    return {
        "left_out": store.left_out,
        "rejected": dict(sorted(store.rejected.items())),
        "damaged": store.damaged,
        "watched": store.watched,
        "trouble": store.trouble,
        "reading": None if reading.done else {"read": reading.read, "total": reading.total},
    }


def row_part(summary: Summary) -> dict[str, Any]:
    """Return the row of a stream in the overview."""
    standing, incident = summary.baselines.standing(), summary.incident
    return {
        "stream": summary.name,
        "epoch": summary.epoch,
        "events": summary.last_seq + 1,
        "rate": round(summary.rate.value, 3),
        "newest": summary.rate.newest,
        "standing": standing
        and {
            "events": standing.events,
            "model": standing.model,
            "constant": standing.constant,
            "no_change": standing.no_change,
            "most_frequent": standing.most_frequent,
            "beaten": standing.beaten,
            "diverged": standing.diverged,
        },
        "method": label_of(summary.method),
        "leading": summary.leading,
        "compared": summary.compared and summary.compared._asdict(),
        "open": summary.open_incidents,
        "incident": incident
        and {
            "incident": incident.incident,
            "status": incident.status,
            "title": _verdict(incident.verdict),
            "since": incident.since,
            "summary": incident.summary,
            "reported": incident.written,
        },
    }


def bins_part(bins: Bins, sent: tuple[int, int]) -> tuple[dict[str, Any], tuple[int, int]]:
    """Return the bins from the newest that was sent on, which has grown since; all bins if their width has changed."""
    shown = bins.shown()
    width, index = sent
    start = index if width == bins.width else 0
    new = [one for one in shown if one.index >= start]
    columns = {
        "width": bins.width,
        "from": start,
        "index": [one.index for one in new],
        "first": [one.first for one in new],
        "last": [one.last for one in new],
        "count": [one.count for one in new],
        "mean": [one.mean for one in new],
        "note": [one.note for one in new],
        "ts": [one.ts for one in new],
    }
    return columns, (bins.width, shown[-1].index if shown else 0)


def quality_part(history: StreamHistory) -> dict[str, Any]:
    """Return how well the model predicts, without the bins."""
    quality = history.quality
    standing = quality.baselines.standing()
    return {
        "loss_name": quality.loss_name,
        "metric_name": quality.metric_name,
        "metric": quality.metric,
        "events": quality.events,
        "labelled": quality.labelled,
        "last_seq": quality.last_seq if quality.events else None,
        "recent_loss": sum(quality.recent) / len(quality.recent) if quality.recent else None,
        "recent_events": len(quality.recent),
        "standing": standing and _standing(standing),
    }


def _standing(standing: Standing) -> dict[str, Any]:
    kappas = {"kappa_m": standing.kappa_m, "kappa_temporal": standing.kappa_temporal}
    return {**asdict(standing), **kappas, "beaten": standing.beaten, "diverged": standing.diverged}


def importance_part(method: Method, name: str, points: Sequence[Point], names: Sequence[str]) -> dict[str, Any]:
    """Return the importance of the named features at these points, and the current ranking of all features."""
    table = method.table(points)
    columns = {feature: table[:, method.features[feature]] for feature in names}
    last = method.last
    return {
        "method": name,
        "label": label_of(name),
        "meaning": meaning_of(name, method.loss),
        "loss": method.loss,
        "alpha": method.alpha,
        "interval": {"kind": method.interval.kind, "level": method.interval.level},
        "records": method.points.total,
        "kept_every": method.points.stride,
        "row": [one.row for one in points],
        "seq": [one.seq for one in points],
        "lag": [one.lag for one in points],
        "coverage": [one.coverage for one in points],
        "features": {
            feature: {
                "value": _numbers(column[:, 0]),
                "low": _numbers(column[:, 1]),
                "high": _numbers(column[:, 2]),
            }
            for feature, column in columns.items()
        },
        "others": _others(method, points, names),
        "ranking": sorted(
            ([one.rank, feature, one.value, one.low, one.high] for feature, one in method.newest.items()),
            key=lambda entry: (entry[0], entry[1]),
        ),
        "left_out": method.left_out,
        "totals": method.totals,
        "last": last
        and {
            "row": last.row,
            "seq": last.seq,
            "n": last.n,
            "lag": last.lag,
            "coverage": last.coverage,
            "model_version": last.model_version,
            "staleness": last.staleness,
        },
    }


def _others(method: Method, points: Sequence[Point], names: Sequence[str]) -> list[float]:
    """Return the sum of the positive values of the features that are not drawn, at each point."""
    drawn = {method.features[name] for name in names}
    rest = [at for at in range(len(method.features)) if at not in drawn]
    totals: list[float] = np.nan_to_num(method.table(points)[:, rest, 0]).clip(min=0.0).sum(axis=1).tolist()
    return totals


def _numbers(column: Iterable[float]) -> list[float | None]:
    return [None if isnan(value) else float(value) for value in column]


def curve_part(curve: Curve) -> dict[str, Any]:
    """Return the message part for an effect curve."""
    return {
        "row": curve.row,
        "seq": curve.seq,
        "n": curve.n,
        "importance": curve.importance,
        "grid": curve.grid,
        "curve": curve.curve,
        "margin": curve.margin,
    }


def alarm_part(record: Drift) -> dict[str, Any]:
    """Return the message part for an alarm, with its curves."""
    return {
        "row": record.row,
        "seq": record.seq,
        "signal": record.signal,
        "feature": record.feature,
        "method": record.method,
        "label": label_of(record.method),
        "before": record.before,
        "after": record.after,
        "width": record.width,
        "detector": record.detector.name,
        "curve_before": _drift_curve(record.curve_before),
        "curve_after": _drift_curve(record.curve_after),
    }


def _drift_curve(curve: DriftCurve | None) -> dict[str, Any] | None:
    if curve is None:
        return None
    return {"output": curve.output, "grid": curve.grid, "curve": curve.curve}


def incident_part(record: Incident) -> dict[str, Any]:
    """Return the message part for an incident, with its evidence and what to do about it."""
    return {
        "incident": record.incident,
        "status": record.status,
        "row": record.row,
        "seq": record.seq,
        "by_events": record.unit == "event",
        "onset": {
            "row": record.onset.row,
            "earliest": record.onset.earliest,
            "latest": record.onset.latest,
            "seq": record.onset.seq,
            "ts": record.onset.ts,
        },
        "verdict": record.verdict,
        "title": _verdict(record.verdict),
        "weight": record.weight,
        "alternatives": [{"title": _verdict(one.verdict), "weight": one.weight} for one in record.alternatives],
        "features": [
            {"feature": one.feature, "fault": one.fault, "other": one.other, "factor": one.factor}
            for one in record.features
        ],
        "loss_name": record.loss_name,
        "loss_before": record.loss_before,
        "loss_after": record.loss_after,
        "summary": record.summary,
        "evidence": [
            {
                "side": one.side,
                "feature": one.feature,
                "other": one.other,
                "row": one.row,
                "strength": one.strength,
                "before": one.before,
                "after": one.after,
            }
            for one in record.evidence
        ],
        "segments": [
            {
                "text": one.text,
                "share_before": one.share_before,
                "share_since": one.share_since,
                "loss_before": one.loss_before,
                "loss_since": one.loss_since,
                "low": one.low,
                "high": one.high,
                "carried": one.carried,
            }
            for one in (record.where.segments if record.where is not None else [])
        ],
        "advice": advice(record.verdict),
        "suggestion": record.advice.text if record.advice is not None else "",
    }


def _verdict(verdict: str) -> str:
    return VERDICTS.get(verdict, verdict.replace("_", " "))


def explained_part(explained: Explained) -> dict[str, Any]:
    """Return the list of the explained events, oldest first."""
    return {"total": explained.total, "rows": [_explained_row(row) for row in explained.rows()]}


def opened_part(row: Row, record: Attribution) -> dict[str, Any]:
    """Return why one event was predicted as it was."""
    return {
        "row": _explained_row(row),
        "sentence": record.sentence(),
        "origin": record.origin(),
        "steps": [[*step] for step in record.steps()],
    }


def _explained_row(row: Row) -> list[Any]:
    seq, output, prediction, facts, flagged = row
    return [seq, output, prediction, *(facts or (None, None, None)), flagged]


def novelty_part(history: StreamHistory) -> dict[str, Any]:
    """Return the novelty detector's results, without the bins."""
    watch = history.novelty
    last = watch.last
    return {
        "events": watch.events,
        "flagged": watch.flagged,
        "recent_rate": sum(watch.recent) / len(watch.recent) if watch.recent else None,
        "recent_events": len(watch.recent),
        "away": last.threshold / last.held_threshold if last and last.held_threshold else None,
        "last_seq": last and last.seq,
        "map_version": last and last.map_version,
        "examples": [_example(one) for one in reversed(watch.examples)],
        "alarms": [
            {"seq": one.seq, "before": one.alarm.before, "after": one.alarm.after, "width": one.alarm.width}
            for one in watch.alarms
            if one.alarm is not None
        ],
        "alarms_total": watch.alarms_total,
    }


def _example(record: Novelty) -> dict[str, Any]:
    slopes = record.attribution or {}
    strongest = sorted(slopes, key=lambda name: (-abs(slopes[name]), name))[:3]
    return {
        "seq": record.seq,
        "id": record.id,
        "indicator": record.indicator,
        "threshold": record.threshold,
        "attribution": [[name, slopes[name]] for name in strongest],
    }


def segments_part(record: Segments) -> dict[str, Any]:
    """Return the weak segments of a stream as of the newest record."""
    return {
        "sentence": record.sentence,
        "segments": [
            {name: getattr(one, name) for name in ("text", "share", "loss", "outside", "low", "high", "since")}
            for one in record.segments
        ],
    }


def groups_part(record: Groups) -> dict[str, Any]:
    """Return the groups of one attribute, over all rows of the epoch, with the rates of one class.

    That is the class whose selection rates differ most between groups; of two, the rarer one.
    """
    total = record.total
    at = None
    if record.classes:
        differences = [one.demographic_parity or 0.0 for one in total.differences]
        labels = [
            sum(rates[number].of for rates in (group.true_positive_rate for group in total.groups) if rates)
            for number in range(len(differences))
        ]
        at = max(range(len(differences)), key=lambda one: (differences[one], -labels[one]), default=None)
    return {
        "attribute": record.attribute,
        "rows": total.rows,
        "level": record.level,
        "least": record.least,
        "loss": record.loss,
        "positive": None if at is None else record.classes[at],
        "groups": [_group(group, at) for group in total.groups],
        "demographic_parity_difference": total.demographic_parity_difference,
        "equalized_odds_difference": total.equalized_odds_difference,
        "alarms": [one.text for one in record.alarms],
    }


def _group(group: Group, at: int | None) -> dict[str, Any]:
    rates = (group.selection_rate, group.true_positive_rate, group.false_positive_rate)
    columns = ("selection", "true_positive", "false_positive")
    return {
        "kind": group.kind,
        "value": group.value,
        "rows": group.loss.of,
        "accuracy": _mean(group.accuracy),
        "error": _mean(group.error),
        "loss": _mean(group.loss),
        **{
            name: _mean(column[at]) if at is not None and at < len(column) else None
            for name, column in zip(columns, rates, strict=True)
        },
    }


def _mean(mean: Mean | None) -> list[float | None] | None:
    return None if mean is None else [mean.of, mean.value, mean.low, mean.high]


def comparison_part(record: Comparison) -> dict[str, Any]:
    """Return the statement about the models of the stream and of another one."""
    other = record.other.stream
    if other == record.stream:
        other = f"{other} @ {record.other.prefix}"
    return {
        "other": other,
        "rows": record.rows,
        "seq": record.seq,
        "better": record.better,
        "text": record.sentence(other=other),
    }
