"""Report of `run`: progress lines while it works, and a table at the end."""

from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Any

import msgspec
import orjson
from rich.console import Console
from rich.text import Text

from glasstream.app.runner.tables import History, effects_table, groups_table, importance_table, number
from glasstream.base.errors import InputError
from glasstream.detect.baselines import ROLLING, Baselines, CompactBaselines, Standing
from glasstream_topics import drift, effects, events_dead, groups, importance, incidents, novelty, predictions
from glasstream_topics.drift import Drift
from glasstream_topics.effects import Effect
from glasstream_topics.groups import Groups
from glasstream_topics.importance import Importance
from glasstream_topics.incidents import Incident
from glasstream_topics.methods import LABELLED, METHODS, meaning_of
from glasstream_topics.predictions import Estimate, Metric

_LEADING = 4
"""Number of features to name in a progress line."""
_HISTORY = 400
"""Number of records of a stream to keep for the largest change. Beyond it, every other record is dropped."""
_FEWEST = 30
"""Number of events below which no model is compared with the baselines in earnest."""
_CHECKED = 100
"""Number of events between two checks whether the model diverges."""


class _Predicted(msgspec.Struct):
    """Fields to decode from each record of `predictions`: only those that are shown."""

    epoch: int
    stream: str
    prediction: str | float | None
    target: str | float | None
    metric: Metric
    probabilities: dict[str, float] | None
    others: msgspec.Raw = msgspec.Raw()
    estimates: list[Estimate] = []


class _Novel(msgspec.Struct):
    """Fields to decode from each record of `novelty`."""

    epoch: int
    stream: str
    seq: int
    flagged: bool
    alarm: msgspec.Raw = msgspec.Raw()


@dataclass(slots=True)
class _Method:
    """Newest records of one method for a stream."""

    newest: Importance
    history: History = field(default_factory=list)
    """Records for the largest change, thinned as they grow in number."""
    every: int = 1
    seen: int = 0

    def add(self, record: Importance) -> None:
        self.newest = record
        self.seen += 1
        if self.seen % self.every == 0:
            self.history.append((record.row, {name: values.value for name, values in record.features.items()}))
        if len(self.history) > _HISTORY:
            self.history = self.history[1::2]
            self.every *= 2


@dataclass(slots=True)
class _Stream:
    """Data to show for the newest epoch of a stream."""

    epoch: int = 0
    predicted: int = 0
    unlabelled: int = 0
    metric: Metric | None = None
    estimate: Estimate | None = None
    """Newest window of events without a label."""
    diverged_at: int | None = None
    """Number of events after which it was reported that the model diverges."""
    baselines: Baselines = field(default_factory=Baselines)
    recent: Baselines = field(default_factory=lambda: CompactBaselines(ROLLING))
    """Baselines of the newest events of a regression, which early events cannot ruin."""
    methods: dict[str, _Method] = field(default_factory=dict)
    effects: dict[tuple[str, str | None], Effect] = field(default_factory=dict)
    """Newest curve of each feature and output."""
    alarms: list[tuple[int, str | None]] = field(default_factory=list)
    """Pairs (row, feature) of alarms; the feature is None for alarms of the loss."""
    incidents: dict[int, Incident] = field(default_factory=dict)
    """Newest record of each incident, by its number."""
    groups: dict[str, Groups] = field(default_factory=dict)
    """Newest record of each attribute."""
    scored: int = 0
    flagged: int = 0
    novelty_alarms: list[int] = field(default_factory=list)
    """seq of each event of an alarm of the novelty detector."""

    def explained(self) -> tuple[int, float]:
        """Return the number of explained rows, and the coverage."""
        found = [(method.newest.n, method.newest.coverage) for method in self.methods.values()]
        found += [(effect.n, effect.coverage) for effect in self.effects.values()]
        return max(found)

    def learned_nothing(self) -> bool:
        """Return whether the model that is explained is the one with which the stream began."""
        versions = [method.newest.model_version for method in self.methods.values()]
        versions += [effect.model_version for effect in self.effects.values()]
        return bool(versions) and not any(versions)

    def newest(self) -> Standing | None:
        """Return the standing over the newest events of a regression; None if they are all events."""
        recent = self.recent.standing()
        standing = self.baselines.standing() if recent is not None else None
        return recent if standing is not None and recent is not None and recent.events < standing.events else None

    def metric_text(self) -> str:
        """Return the running metric as text. Events without a label have none."""
        if self.metric is not None and self.metric.value is not None:
            text = f"{self.metric.name} {number(self.metric.value)}"
            recent = self.newest()
            return text if recent is None else f"{text} ({number(recent.model)} over the last {recent.events:,})"
        labelled = any(METHODS[name].part & LABELLED for name in self.methods)
        if labelled and self.predicted == self.unlabelled:
            return "no metric, because the labels came after the last event"
        return "no labelled event so far" if self.predicted == self.unlabelled else "no event scored so far"


class Report:
    """Collector of the records that a run publishes.

    Parameters
    ----------
    console
        Console to print to.
    total
        Number of events to come, if known.
    novelty
        Whether novelty is requested.
    incidents
        Whether the streams are watched for incidents.
    """

    def __init__(self, console: Console, total: int | None, *, novelty: bool = False, incidents: bool = False) -> None:
        self._console = console
        self._incidents = incidents
        self._novelty = novelty
        self._total = total
        self._streams: dict[str, _Stream] = {}
        self._predicted = 0
        self._letters = 0
        self._rejected: Counter[str] = Counter()
        """Number of rejected events by reason; a letter has those of one message."""
        self._example = ""
        self._shown_at: float | None = None
        self._shown_count = 0

    @property
    def predicted(self) -> int:
        """Return the number of predictions seen."""
        return self._predicted

    def add(self, topic: str, records: list[bytes]) -> None:
        """Add records of one topic, in order."""
        if topic in _TAKERS:  # the report shows nothing of other topics
            decode, add = _TAKERS[topic]
            for record in records:
                add(self, decode(record))

    def progress(self, now: float, interval: float = 2.0) -> None:
        """Print a progress line if the last one is `interval` seconds old. `now` is any clock in seconds.

        The rate counts from the previous line. The first line shows none, because it would include the start of the
        stages.
        """
        if self._shown_at is None:
            self._shown_at = now
        if now - self._shown_at < interval or self.predicted == self._shown_count:
            return
        first = self._shown_count == 0
        rate = "" if first else f"{(self.predicted - self._shown_count) / (now - self._shown_at):,.0f}/s"
        self._shown_at, self._shown_count = now, self.predicted
        count = f"{self.predicted:>9,}{self._of_total()}"
        for name, stream in sorted(self._streams.items()):
            rest = f"  {count} events  {rate:>10}  {stream.metric_text()}  {_leaders(stream)}"
            self._console.print(Text.assemble((name, "dim"), rest))

    def table(
        self,
        seconds: float,
        *,
        interrupted_after: int | None = None,
        broken: InputError | None = None,
        unexplained: Mapping[str, tuple[int, str]] = MappingProxyType({}),
    ) -> None:
        """Print at the end what each stream's model relies on, where that changed, and which input was rejected.

        Parameters
        ----------
        seconds
            Duration of the run.
        interrupted_after
            Number of events read before the user interrupted the run; None if all were read.
        broken
            Why the rest of the input cannot be read. It is raised at the end.
        unexplained
            Number of rows that could not be explained, and why the first could not, by stream.

        Raises
        ------
        InputError
            The run accepted no event, or the rest of the input cannot be read.
        """
        for name, stream in sorted(self._streams.items()):
            failed, cause = unexplained.get(name, (0, ""))
            self._table(name, stream, seconds, failed)
            if failed:
                rows = f"{failed:,} row{'' if failed == 1 else 's'} could not be explained"
                self._say(f"{name}: warning: {rows}; the first because: {cause}", style="yellow")
        if self._letters:
            reasons = ", ".join(f"{reason} {count:,}" for reason, count in self._rejected.most_common())
            self._say(f"dead letters: {self._dead()} ({reasons}); the first: {self._example}")
        if interrupted_after is not None:
            self._say(f"interrupted after {interrupted_after:,}{self._of_total()} events; the results are partial")
        if broken is not None:
            if self._streams:
                self._say(f"only the first {self.predicted:,} events could be read; the results are partial")
            raise broken
        if not self._streams:
            raise InputError(
                f"expected events that the model can use, got none: {self._example or 'the input was empty'}"
            )

    def _table(self, name: str, stream: _Stream, seconds: float, failed: int) -> None:
        counted = f"{stream.predicted:,} event{'' if stream.predicted == 1 else 's'}" + (
            f" in {seconds:,.1f} s" if seconds else ""
        )
        if stream.unlabelled:
            becomes = "scored" if stream.learned_nothing() else "learned"
            learned = f"such an event is {becomes} when its label comes"
            counted += f", {stream.unlabelled:,} of them came without a label ({learned})"
        if not stream.methods and not stream.effects:
            labelled = stream.predicted - stream.unlabelled
            few = ""
            if failed:
                few = ": every explanation failed"
            elif self._rejected[events_dead.Reason.MODEL_ERROR]:
                few = ": the model raised errors and has learned too few events"
            elif labelled:
                few = f": too few labelled events ({labelled:,}; see explain.reservoir and explain.start)"
            self._say(f"{name}: {counted}, {stream.metric_text()}; no explanations{few}")
            self._tell_groups(name, stream)
            self._tell_novelty(stream)
            return
        # First of all, because nothing below holds for such a model.
        self._tell_divergence(name, stream)
        # A terminal too narrow for the wrapped table breaks its lines, which is better than cutting them.
        for method in stream.methods.values():
            self._console.print(importance_table(name, method.newest, method.history), crop=False)
            meaning, level = meaning_of(method.newest.method, method.newest.loss), method.newest.interval.level
            half = "" if level is None else f"; ±: half of its {level:.0%} interval"
            self._say(f"importance: {meaning}{half}", style="dim")
        if stream.effects:
            self._console.print(effects_table(name, stream.effects.values()), crop=False)
            self._say(meaning_of("ipdp", ""), style="dim")
        n, coverage = stream.explained()
        standing = stream.baselines.standing()
        # The line about baselines has the mean absolute error, of all rows that have a previous label.
        metric = "" if standing is not None and not standing.of_classes else f", {stream.metric_text()}"
        self._say(f"{counted}{metric}, {n:,} rows explained (coverage {coverage:.0%}), dead letters: {self._dead()}")
        if stream.learned_nothing():
            self._say("the model was trained before the stream began, and learned nothing from it")
        if standing is not None:
            self._tell_standing(standing)
        if (newest := stream.newest()) is not None:
            self._tell_standing(newest, f" over the last {newest.events:,} events")
        self._tell_expected(stream.estimate)
        self._tell_groups(name, stream)
        self._tell_changes(stream)
        self._tell_novelty(stream)

    def _tell_changes(self, stream: _Stream) -> None:
        """Print a sentence for each incident, and what an open one advises.

        The alarms are printed in detail only if incidents are not watched.
        """
        if not self._incidents:
            self._say(f"drift alarms: {_alarms(stream.alarms)}")
            return
        for place, incident in sorted(stream.incidents.items()):
            self._say(f"incident {place} ({incident.status}): {incident.summary}")
            if incident.status == "open" and incident.advice is not None and incident.advice.action != "none":
                self._say(f"  advice: {incident.advice.text}")
        if not stream.incidents:
            self._say("incidents: none")
        count = len(stream.alarms)
        self._say(f"{count:,} drift alarm{'' if count == 1 else 's'} in the topic drift", style="dim")

    def _tell_divergence(self, name: str, stream: _Stream) -> None:
        """Print a warning if the newest predictions of the model diverge, or if earlier ones did."""
        recent = stream.recent.standing()
        if recent is not None and recent.diverged:
            stream.diverged_at = stream.diverged_at or stream.predicted
            self._say(
                f"{name}: warning: the model diverges, as of event {stream.diverged_at:,}: the mean absolute error of "
                f"its last {recent.events:,} predictions, {recent.model:.3g}, is far beyond the largest target, "
                f"{recent.largest:.3g}. Its importances, effects, drift alarms and incidents mean nothing. Use "
                "--model forest, tree or linear, or scale the features in your own model",
                style="yellow",
            )
        elif recent is not None and stream.diverged_at is not None:
            self._say(
                f"{name}: warning: the model diverged near event {stream.diverged_at:,}, and has recovered: the mean "
                f"absolute error of its last {recent.events:,} predictions is {recent.model:.3g}. What it explained in "
                "between means nothing",
                style="yellow",
            )

    def _tell_standing(self, standing: Standing, over: str = "") -> None:
        """Print how good the baselines are. A model that does not beat them explains little."""
        if standing.of_classes:
            always = f"{standing.constant:.1%} (always '{standing.most_frequent}')"
            previous = f"{standing.no_change:.1%} (the previous label)"
            line = f"right in {standing.model:.1%} (the model), {always}, {previous}"
        else:
            means = f"{number(standing.constant)} (the mean so far), {number(standing.no_change)} (the previous label)"
            line = f"mean absolute error {number(standing.model)} (the model), {means}"
        if standing.events < _FEWEST:
            few = f"on only {standing.events:,} events that came with their labels"
            self._say(f"compared with baselines, {few}: {line}")
            return
        if standing.beaten:
            self._say(f"compared with baselines{over}: {line}")
        elif not standing.of_classes and standing.model < standing.constant:
            self._say(f"warning: the model beats the mean, but not the previous label{over}: {line}", style="yellow")
        else:
            self._say(f"warning: the model is no better than a baseline{over}: {line}", style="yellow")
        if standing.of_classes:
            self._say(f"beyond the baselines: {_beyond(standing)}")

    def _tell_expected(self, estimate: Estimate | None) -> None:
        """Print how good the model probably is on the newest events without a label."""
        if estimate is None:
            return
        expected = estimate.accuracy
        line = (
            f"expected accuracy of {estimate.events:,} events without a label, {estimate.first:,} to "
            f"{estimate.last:,}: {expected.value:.1%} ({expected.low:.1%} to {expected.high:.1%})"
        )
        if estimate.settled:
            inside = f"{estimate.accuracy_inside:,} of {estimate.settled:,} windows"
            line += f"; the interval contained the observed accuracy in {inside}"
        self._say(line)

    def _tell_groups(self, name: str, stream: _Stream) -> None:
        for newest in stream.groups.values():
            self._console.print(groups_table(name, newest), crop=False)
            total = newest.total
            differences = [
                f"{words} {number(value)}"
                for words, value in (
                    ("demographic parity", total.demographic_parity_difference),
                    ("equalized odds", total.equalized_odds_difference),
                    (f"{newest.loss} loss", total.loss_difference),
                )
                if value is not None
            ]
            found = ", ".join(differences) or f"none, because fewer than two groups have {newest.least:,} rows"
            self._say(f"differences between the groups of {newest.attribute}: {found}")
            for alarm in newest.alarms:
                self._say(f"alarm: {alarm.text}")

    def _tell_novelty(self, stream: _Stream) -> None:
        if not self._novelty:
            return
        if not stream.scored:
            self._say("novelty: no event scored; the first map needs novelty.window labelled events")
            return
        alarms = f"{len(stream.novelty_alarms):,}"
        if stream.novelty_alarms:
            alarms += f", from event {min(stream.novelty_alarms):,} to {max(stream.novelty_alarms):,}"
        self._say(
            f"novelty: {stream.scored:,} events scored, {stream.flagged:,} of them flagged "
            f"({stream.flagged / stream.scored:.1%}), alarms: {alarms}"
        )

    def _stream(self, name: str, epoch: int) -> _Stream:
        """Return the data of an epoch, or data that are not shown if a later epoch has begun."""
        stream = self._streams.get(name)
        if stream is None or epoch > stream.epoch:
            stream = self._streams[name] = _Stream(epoch)
        return stream if epoch == stream.epoch else _Stream(epoch)

    def _add_groups(self, record: Groups) -> None:
        self._stream(record.stream, record.epoch).groups[record.attribute] = record

    def _add_novelty(self, novel: _Novel) -> None:
        stream = self._stream(novel.stream, novel.epoch)
        stream.scored += 1
        stream.flagged += novel.flagged
        if bytes(novel.alarm):
            stream.novelty_alarms.append(novel.seq)

    def _add_prediction(self, prediction: _Predicted) -> None:
        self._predicted += 1
        stream = self._stream(prediction.stream, prediction.epoch)
        stream.predicted += 1
        stream.metric = prediction.metric
        for estimate in prediction.estimates:
            if stream.estimate is None or estimate.last >= stream.estimate.last:
                stream.estimate = estimate
            else:  # an earlier window, whose labels have come
                counts = {name: getattr(estimate, name) for name in ("settled", "accuracy_inside", "loss_inside")}
                stream.estimate = msgspec.structs.replace(stream.estimate, **counts)
        cut = bool(bytes(prediction.others))
        stream.baselines.add(prediction.prediction, prediction.target, prediction.probabilities, cut=cut)
        if prediction.target is None:
            stream.unlabelled += 1
        elif isinstance(prediction.target, float):
            stream.recent.add(prediction.prediction, prediction.target)
            if stream.diverged_at is None and stream.predicted % _CHECKED == 0:
                self._tell_divergence(prediction.stream, stream)

    def _add_importance(self, record: Importance) -> None:
        methods = self._stream(record.stream, record.epoch).methods
        methods.setdefault(record.method, _Method(record)).add(record)

    def _add_effect(self, effect: Effect) -> None:
        self._stream(effect.stream, effect.epoch).effects[effect.feature, effect.output] = effect

    def _add_alarm(self, alarm: Drift) -> None:
        self._stream(alarm.stream, alarm.epoch).alarms.append((alarm.row, alarm.feature))

    def _add_incident(self, incident: Incident) -> None:
        self._stream(incident.stream, incident.epoch).incidents[incident.incident] = incident

    def _add_letter(self, letter: dict[str, str]) -> None:
        self._letters += 1
        fields = events_dead.DeadLetter.__struct_fields__
        headers = [(name, letter[name].encode()) for name in fields if name in letter]
        self._rejected.update(events_dead.decode(headers).reasons())
        self._example = self._example or letter.get("detail", "")

    def _dead(self) -> str:
        """Return the number of rejected messages and, if there are any, of the events in them."""
        many = self._rejected.total()
        return f"{self._letters:,} with {many:,} rejected event{'' if many == 1 else 's'}" if many else "0"

    def _of_total(self) -> str:
        return f" of {self._total:,}" if self._total else ""

    def _say(self, line: str, style: str | None = None) -> None:
        self._console.print(line, style=style)


def _alarms(alarms: list[tuple[int, str | None]]) -> str:
    """Describe alarms: their number, subjects and rows.

    >>> _alarms([]), _alarms([(10_051, "loan"), (10_147, None), (10_200, "loan")])
    ('0', '3 (2 on loan, 1 on the loss), rows 10,051 to 10,200')
    """
    if not alarms:
        return "0"
    rows = [row for row, _ in alarms]
    counts = Counter(feature or "the loss" for _, feature in alarms).most_common()
    of = ", ".join(f"{count} on {name}" for name, count in counts)
    return f"{len(alarms):,} ({of}), rows {min(rows):,} to {max(rows):,}"


def _beyond(standing: Standing) -> str:
    """Describe how good a model of classes is, where the share of right predictions misleads.

    >>> _beyond(Standing(200, 0.9, 0.8, 0.5, "no", balanced=0.75))
    'kappa-M 0.500, kappa-temporal 0.800, balanced accuracy 75.0%'
    >>> _beyond(Standing(200, 1.0, 1.0, 1.0, "no", 1.0, log_loss=0.125, log_loss_events=150, roc_auc=0.75))
    'balanced accuracy 100.0%, log loss 0.125 (of the 150 events that name the class), ROC AUC of the last 200 0.750'
    """
    numbers = [("kappa-M", standing.kappa_m), ("kappa-temporal", standing.kappa_temporal)]
    words = [f"{name} {value:.3f}" for name, value in numbers if value is not None]
    if standing.balanced is not None:
        words.append(f"balanced accuracy {standing.balanced:.1%}")
    if standing.log_loss is not None:
        named = f" (of the {standing.log_loss_events:,} events that name the class)"
        words.append(f"log loss {standing.log_loss:.3f}{named if standing.log_loss_events < standing.events else ''}")
    if standing.roc_auc is not None:
        words.append(f"ROC AUC of the last {min(ROLLING, standing.events):,} {standing.roc_auc:.3f}")
    return ", ".join(words)


def _leaders(stream: _Stream) -> str:
    """Return the leading features by the first method that ranks them."""
    ranked = [
        (feature, values.value)
        for method in list(stream.methods.values())[:1]
        for feature, values in sorted(method.newest.features.items(), key=lambda item: item[1].rank)
    ]
    return ", ".join(f"{name} {number(value, 3)}" for name, value in ranked[:_LEADING] if value > 0)


_Taker = tuple[Callable[[bytes], Any], Callable[[Report, Any], None]]
_TAKERS: dict[str, _Taker] = {
    predictions.TOPIC.name: (msgspec.json.Decoder(_Predicted).decode, Report._add_prediction),
    importance.TOPIC.name: (importance.decode, Report._add_importance),
    effects.TOPIC.name: (effects.decode, Report._add_effect),
    drift.TOPIC.name: (drift.decode, Report._add_alarm),
    incidents.TOPIC.name: (incidents.decode, Report._add_incident),
    novelty.TOPIC.name: (msgspec.json.Decoder(_Novel).decode, Report._add_novelty),
    groups.TOPIC.name: (groups.decode, Report._add_groups),
    events_dead.TOPIC.name: (orjson.loads, Report._add_letter),
}
"""How to decode and add a record of each topic that the report shows."""
