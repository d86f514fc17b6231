"""What `run` shows a person: a line now and then while it works, and a table at the end."""

from collections import Counter
from dataclasses import dataclass, field

import orjson
from rich.console import Console
from rich.table import Table

from pipeline.errors import InputError
from topics import importance, predictions
from topics.importance import Importance

_LEADING = 4
"""Features named in a progress line."""
_CHANGE_WINDOWS = 5
"""Parts of the run between which the table looks for the largest change."""


@dataclass(slots=True)
class _Stream:
    predicted: int = 0
    metric: str = ""
    newest: Importance | None = None
    history: list[tuple[int, dict[str, float]]] = field(default_factory=list)
    """(row, value of each feature), thinned as it grows."""
    every: int = 1
    seen: int = 0


_HISTORY = 400


class Report:
    """Gathers what a run publishes.

    Parameters
    ----------
    console
        Where it is shown.
    total
        Events to come, if known.
    """

    def __init__(self, console: Console, total: int | None) -> None:
        self._console = console
        self._total = total
        self._streams: dict[str, _Stream] = {}
        self._dead: Counter[str] = Counter()
        self._example = ""
        self._shown_at = 0.0
        self._shown_count = 0

    @property
    def predicted(self) -> int:
        """Predictions seen."""
        return sum(stream.predicted for stream in self._streams.values())

    def add(self, topic: str, records: list[bytes]) -> None:
        """Take records of one topic, in order."""
        if topic == "predictions":
            self._add_predictions(records)
        elif topic == "importance":
            for record in records:
                self._add_importance(importance.decode(record))
        elif topic == "events.dead":
            for record in records:
                letter = orjson.loads(record)
                self._dead[letter["reason"]] += 1
                self._example = self._example or letter.get("detail", "")

    def progress(self, now: float, interval: float = 2.0) -> None:
        """Print a line, if the last one is `interval` seconds old. `now` is any clock in seconds."""
        if self._shown_at == 0.0:
            self._shown_at = now
        if now - self._shown_at < interval or self.predicted == self._shown_count:
            return
        rate = (self.predicted - self._shown_count) / (now - self._shown_at)
        self._shown_at, self._shown_count = now, self.predicted
        count = f"{self.predicted:>9,}" + (f" of {self._total:,}" if self._total else "")
        for name, stream in sorted(self._streams.items()):
            self._console.print(
                f"[dim]{name}[/]  {count} events  {rate:>8,.0f}/s  {stream.metric}  {_leaders(stream.newest)}",
                highlight=False,
            )

    def table(self, seconds: float) -> None:
        """Print what each stream's model relies on at the end, where that changed, and what was rejected.

        Raises
        ------
        InputError
            Not one event was accepted.
        """
        self._tables(seconds)
        if self._dead:
            reasons = ", ".join(f"{reason} {count:,}" for reason, count in self._dead.most_common())
            self._console.print(
                f"dead letters: {self._dead.total():,} messages ({reasons}); the first: {self._example}"
            )
        if not self._streams:
            raise InputError(f"expected events that can be learned, got none: {self._example or 'the input was empty'}")

    def _tables(self, seconds: float) -> None:
        for name, stream in sorted(self._streams.items()):
            newest = stream.newest
            rate = f" in {seconds:,.1f} s" if seconds else ""
            if newest is None:
                self._console.print(
                    f"{name}: {stream.predicted:,} events{rate}, {stream.metric}; nothing explained yet"
                )
                continue
            table = Table(
                title=f"{name}: importance after row {newest.row:,} "
                f"({newest.method}, {newest.loss}, α = {newest.alpha:g}, {newest.sampling})",
                title_justify="left",
            )
            for column in ("rank", "feature", "importance", "σ of a row", "largest change", "between rows"):
                table.add_column(
                    column, justify="left" if column == "feature" else "right", no_wrap=column != "feature"
                )
            for feature, values in sorted(newest.features.items(), key=lambda item: item[1].rank):
                change = _largest_change(feature, stream.history)
                table.add_row(
                    str(values.rank),
                    feature,
                    _number(values.value),
                    _number(values.variance**0.5),
                    _number(change[0]) if change and change[0] else "–",
                    f"{change[1]:,} → {change[2]:,}" if change and change[0] else "–",
                )
            self._console.print(table)
            self._console.print(
                "importance: the rise of the loss when a feature's value comes from another row, averaged over recent "
                "rows; σ: how much it varies from row to row",
                style="dim",
            )
            self._console.print(
                f"{stream.predicted:,} events{rate}, {stream.metric}, {newest.n:,} rows explained "
                f"(coverage {newest.coverage:.0%}), dead letters: {self._dead.total()}",
                highlight=False,
            )

    def _add_predictions(self, records: list[bytes]) -> None:
        last: dict[str, predictions.Prediction] = {}
        counts: dict[str, int] = {}
        if len({record[: record.index(b'"seq"')] for record in records if b'"seq"' in record}) == 1:
            newest = predictions.decode(records[-1])  # one stream: only the newest says something new
            last[newest.stream], counts[newest.stream] = newest, len(records)
        else:
            for record in records:
                prediction = predictions.decode(record)
                last[prediction.stream] = prediction
                counts[prediction.stream] = counts.get(prediction.stream, 0) + 1
        for name, prediction in last.items():
            stream = self._streams.setdefault(name, _Stream())
            stream.predicted += counts[name]
            value = prediction.metric.value
            stream.metric = f"{prediction.metric.name} {value:.4f}" if value is not None else "no label yet"

    def _add_importance(self, record: Importance) -> None:
        stream = self._streams.setdefault(record.stream, _Stream())
        stream.newest = record
        stream.seen += 1
        if stream.seen % stream.every == 0:
            stream.history.append((record.row, {name: values.value for name, values in record.features.items()}))
        if len(stream.history) > _HISTORY:
            stream.history = stream.history[1::2]
            stream.every *= 2


def _number(value: float) -> str:
    """Four decimals, or an exponent where they would be many digits."""
    return f"{value + 0.0:.4f}" if abs(value) < 100_000 else f"{value:.3e}"


def _leaders(newest: Importance | None) -> str:
    if newest is None:
        return ""
    ranked = sorted(newest.features.items(), key=lambda item: item[1].rank)
    return ", ".join(f"{name} {values.value:.3f}" for name, values in ranked[:_LEADING] if values.value > 0)


def _largest_change(feature: str, history: list[tuple[int, dict[str, float]]]) -> tuple[float, int, int] | None:
    """The largest move of a feature's importance over a fifth of the run: (change, from row, to row)."""
    span = max(1, len(history) // _CHANGE_WINDOWS)
    best: tuple[float, int, int] | None = None
    for (row, before), (later, after) in zip(history, history[span:], strict=False):
        change = after.get(feature, 0.0) - before.get(feature, 0.0)
        if best is None or abs(change) > abs(best[0]):
            best = (change, row, later)
    return best
