"""Cases in which each alert must fire or must not: series as workers publish them, and when the alert is on.

`promtool` checks the cases against the rules as they are shipped (`tests/ops/test_monitoring.py`);
`tests/chaos/alerts.py` plays those marked `played` to a real Prometheus, faster than they would happen.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final

PER_MINUTE: Final = 4
"""Samples of a series in a minute: the scrape interval that is shipped is 15 s."""

Values = list[float | None]
"""One value for each scrape; None where the series is missing from the answer."""


def hold(value: float, minutes: float) -> Values:
    """Return a value that stays."""
    return [value] * round(minutes * PER_MINUTE)


def grow(first: float, step: float, minutes: float) -> Values:
    """Return values that grow by `step` from scrape to scrape."""
    return [first + step * place for place in range(round(minutes * PER_MINUTE))]


def gone(minutes: float) -> Values:
    """Return the scrapes of a worker that does not answer."""
    return [None] * round(minutes * PER_MINUTE)


@dataclass(frozen=True, slots=True)
class Case:
    """Series, and when an alert is on while they come.

    Attributes
    ----------
    alert
        Its name.
    what
        What happens.
    series
        Values by series.
    firing, quiet
        Minutes at which the alert is on, and at which it is not. Without `firing` it never is, but for `quiet`.
    expected
        Labels and summary of each alert that is on, but for the severity.
    begins, ends
        Minutes at which the cause of the alert begins and ends.
    played
        Whether a real Prometheus is shown it: one case of each alert, in a deployment where all else is well.
    """

    alert: str
    what: str
    series: Mapping[str, Sequence[float | None]]
    firing: Sequence[float] = ()
    quiet: Sequence[float] = ()
    expected: Sequence[tuple[Mapping[str, str], str]] = ()
    begins: float = 0.0
    ends: float = 0.0
    played: bool = False

    @property
    def minutes(self) -> float:
        """How long the series are."""
        return max(map(len, self.series.values())) / PER_MINUTE


@dataclass(slots=True)
class _Of:
    """Collects the cases of one alert."""

    alert: str
    cases: list[Case] = field(default_factory=list)

    def fires(
        self,
        what: str,
        series: Mapping[str, Sequence[float | None]],
        span: tuple[float, float],
        firing: Sequence[float],
        quiet: Sequence[float],
        *expected: tuple[Mapping[str, str], str],
        played: bool = False,
    ) -> "_Of":
        """Add a case that fires."""
        self.cases.append(Case(self.alert, what, series, firing, quiet, expected, *span, played=played))
        return self

    def never(self, what: str, series: Mapping[str, Sequence[float | None]], after: float = 0.0) -> "_Of":
        """Add a case that does not fire in any minute from `after` on."""
        minutes = max(map(len, series.values())) / PER_MINUTE
        self.cases.append(
            Case(self.alert, what, series, quiet=[after + place for place in range(int(minutes - after))])
        )
        return self


def _ready(stage: str, instance: str) -> str:
    return f'glasstream_ready{{stage="{stage}",instance="{instance}"}}'


_OTHERS: Final = {_ready("learner", "learner-0"): hold(1, 60), _ready("aggregator", "aggregator-0"): hold(1, 60)}
_ALL: Final = {**_OTHERS, _ready("explainer", "explainer-0"): hold(1, 60)}


def _gone(stage: str) -> tuple[dict[str, str], str]:
    return {"stage": stage}, f"no worker of the stage {stage} answers"


_STAGE_GONE: Final = (
    _Of("GlasstreamStageGone")
    .fires(
        "a stage that not every deployment has is gone, and comes back",
        {**_ALL, _ready("labels", "labels-0"): hold(1, 5) + gone(10) + hold(1, 5)},
        (5, 15),
        [8, 14],
        [0, 4, 6, 16, 19],
        _gone("labels"),
        played=True,
    )
    .fires(
        "all explainers are killed: within three minutes",
        {
            **_OTHERS,
            _ready("explainer", "explainer-0"): hold(1, 5) + gone(10) + hold(1, 5),
            _ready("explainer", "explainer-1"): hold(1, 4) + gone(16),
        },
        (5, 15),
        [8, 14],
        [0, 4, 6, 16, 19],
        _gone("explainer"),
    )
    .fires(
        "all workers of all stages are killed: the alerts stay",
        {
            _ready(stage, f"{stage}-0"): hold(1, 5) + gone(240)
            for stage in ("learner", "explainer", "aggregator", "novelty", "labels")
        },
        (5, 245),
        [8, 30, 120, 240],
        [4],
        *map(_gone, ("explainer", "aggregator", "labels", "learner", "novelty")),
    )
    .fires(
        "nothing has ever been scraped",
        {"glasstream_nothing": gone(30)},
        (0, 30),
        [3, 29],
        [1],
        *map(_gone, ("explainer", "aggregator", "learner")),
    )
    .fires(
        "a worker that Prometheus has a target for never answered",
        {**_ALL, 'up{job="glasstream",stage="novelty",instance="novelty:8080"}': hold(0, 30)},
        (0, 30),
        [3, 29],
        [1],
        _gone("novelty"),
    )
    .never("one of two explainers is gone", {**_ALL, _ready("explainer", "explainer-1"): hold(1, 5) + gone(20)})
    .never(
        "each worker is restarted",
        {
            _ready(stage, f"{stage}-0"): hold(1, 5) + gone(1) + hold(1, 10)
            for stage in ("learner", "explainer", "aggregator")
        },
    )
    .never(
        "a worker is up and not ready: another alert says so",
        {**_OTHERS, _ready("explainer", "explainer-0"): hold(0, 60)},
    )
)

_UP: Final = 'up{job="glasstream",stage="explainer",instance="10.0.0.3:8080"}'
_WORKER_DOWN: Final = (
    _Of("GlasstreamWorkerDown")
    .fires(
        "an explainer does not answer, and is started again",
        {_UP: hold(1, 5) + hold(0, 8) + hold(1, 5)},
        (5, 13),
        [8, 12],
        [4, 6, 14, 17],
        ({"stage": "explainer", "instance": "10.0.0.3:8080"}, "the explainer worker at 10.0.0.3:8080 does not answer"),
        played=True,
    )
    .never("a worker is restarted", {_UP: hold(1, 5) + hold(0, 1) + hold(1, 5)})
    .never("a target of another job is down", {'up{job="node",instance="10.0.0.3:9100"}': hold(0, 20)})
)


def _started(stage: str, instance: str) -> str:
    return f'glasstream_start_time_seconds{{stage="{stage}",instance="{instance}"}}'


def _starts(count: int, first: float) -> Values:
    """Return start times of a worker that lives for a minute and is down for half of one, `count` times."""
    return [value for number in range(count) for value in hold(first + 90 * number, 1) + gone(0.5)]


_RESTARTING: Final = (
    _Of("GlasstreamRestarting")
    .fires(
        "a worker with a fixed name starts again and again, until its cause is mended",
        {_started("novelty", "novelty-0"): hold(1000, 5) + _starts(8, 2000) + hold(9000, 50)},
        (5, 17),
        [10, 30],
        [4, 9, 48, 60],
        ({"stage": "novelty"}, "the workers of the stage novelty started 10 times in half an hour"),
        played=True,
    )
    .fires(
        "a worker that gets a new name at every start",
        {
            _started("aggregator", f"{number:x}"): gone(1.5 * number) + hold(1000 + 90 * number, 1) + gone(40)
            for number in range(9)
        },
        (0, 13),
        [13],
        [5],
        ({"stage": "aggregator"}, "the workers of the stage aggregator started 9 times in half an hour"),
    )
    .never(
        "eight explainers are replaced by others at once",
        {
            _started("explainer", f"{number:x}"): hold(1000, 20) + gone(40)
            if number < 8
            else gone(20.5) + hold(2000, 40)
            for number in range(16)
        },
    )
    .never(
        "a worker is restarted three times",
        {_started("aggregator", "aggregator-0"): hold(1, 5) + _starts(2, 2) + hold(500, 30)},
    )
)

_STALLED_SERIES: Final = 'glasstream_stalled{stage="learner",instance="learner-0",partition="3"}'
_STALLED: Final = (
    _Of("GlasstreamStalled")
    .fires(
        "a partition makes no progress, and does again; a scrape is lost meanwhile",
        {_STALLED_SERIES: hold(0, 5) + hold(1, 1.5) + gone(0.25) + hold(1, 8.25) + hold(0, 5)},
        (5, 15),
        [8, 14],
        [4, 6, 16],
        (
            {"stage": "learner", "partition": "3"},
            "learner makes no progress on partition 3; /readyz and the log say why",
        ),
        played=True,
    )
    .never("a stall that is mended within a minute", {_STALLED_SERIES: hold(0, 5) + hold(1, 1) + hold(0, 5)})
)

_NOT_READY: Final = (
    _Of("GlasstreamNotReady")
    .fires(
        "a worker takes over no partition for a quarter of an hour; a scrape is lost meanwhile",
        {_ready("aggregator", "aggregator-7"): hold(1, 5) + hold(0, 9) + gone(0.25) + hold(0, 5.75) + hold(1, 5)},
        (5, 20),
        [16, 19],
        [4, 14, 21],
        (
            {"stage": "aggregator", "instance": "aggregator-7"},
            "the aggregator worker aggregator-7 has not been ready for ten minutes; /readyz says why",
        ),
        played=True,
    )
    .never(
        "a rebalance of a minute, each five minutes",
        {_ready("aggregator", "aggregator-7"): (hold(1, 4) + hold(0, 1)) * 6},
    )
    .never(
        "a stalled partition: another alert says so",
        {
            _ready("learner", "learner-0"): hold(0, 30),
            _STALLED_SERIES: hold(1, 30),
        },
    )
)


def _lag(partition: int) -> str:
    return f'glasstream_input_lag{{stage="learner",instance="learner-0",partition="{partition}"}}'


def _wait(partition: int, stage: str = "learner") -> str:
    return f'glasstream_input_wait_seconds{{stage="{stage}",instance="{stage}-0",partition="{partition}"}}'


def _waits(lasting: str, partition: str = "7") -> tuple[dict[str, str], str]:
    return (
        {"stage": "learner", "partition": partition},
        f"messages of partition {partition} wait {lasting} for learner, whatever stream they belong to",
    )


_INPUT_WAIT: Final = (
    _Of("GlasstreamWaiting")
    .fires(
        "one stream has more events than the learner can use, then it stops: within three minutes",
        {_wait(7): hold(0.3, 5) + grow(0.3, 13.5, 5) + grow(270, -13.5, 5) + hold(0.3, 5), _wait(3): hold(0.3, 20)},
        (5, 15),
        [8, 12],
        [4, 5.5, 16, 19],
        _waits("2m 42s"),
        played=True,
    )
    .fires(
        "one stream has twice as many events as the learner can use: within three minutes",
        {_wait(7): hold(0.3, 5) + grow(0.3, 7.5, 10) + hold(0.3, 5)},
        (5, 15),
        [8, 14.5],
        [4, 5.5, 16],
        _waits("4m 45s"),
    )
    .never("messages are used as they come", {_wait(7): hold(0.4, 60)})
    .never("bursts", {_wait(7): (grow(0, 4, 2) + hold(0.3, 4)) * 10})
    .never(
        "a worker takes a partition over", {_wait(7): hold(0.3, 5) + gone(0.75) + grow(35, -12, 0.75) + hold(0.3, 9)}
    )
)

_LAG: Final = (
    _Of("GlasstreamLag")
    .fires(
        "messages come faster than they are used, then no more come",
        {_lag(7): hold(2, 5) + grow(2, 100, 30) + grow(12002, -300, 10) + hold(2, 10)},
        (5, 35),
        [24, 34],
        [4, 20, 46],
        ({"stage": "learner", "partition": "7"}, "learner does not catch up on partition 7: 11602 messages wait"),
        played=True,
    )
    .fires(
        "a stage stands still with messages to use",
        {_lag(7): hold(2, 5) + hold(5000, 60)},
        (5, 65),
        [36, 64],
        [4, 18],
        ({"stage": "learner", "partition": "7"}, "learner does not catch up on partition 7: 5000 messages wait"),
    )
    .never("a backlog that is worked off", {_lag(7): grow(100_000, -100, 60)})
    .never("an idle stream", {_lag(7): hold(2, 60)})
    .never("bursts", {_lag(7): (grow(0, 1000, 2) + grow(8000, -1000, 2) + hold(2, 2)) * 10})
)


def _ahead(stream: str) -> str:
    return f'glasstream_rows_ahead{{stage="learner",instance="learner-0",stream="{stream}"}}'


def _aggregated(stream: str) -> str:
    return f'glasstream_rows_aggregated_total{{stage="aggregator",instance="aggregator-0",stream="{stream}"}}'


_NOTHING: Final = (
    _Of("GlasstreamNothingExplained")
    .fires(
        "rows are learned until the bound, and none is aggregated for a while",
        {
            _ahead("orders"): hold(40, 5) + grow(40, 40, 5) + hold(900, 15) + hold(40, 10),
            _aggregated("orders"): grow(0, 10, 5) + hold(190, 20) + grow(200, 10, 10),
        },
        (5, 25),
        [16, 24],
        [4, 9, 26],
        ({"stream": "orders"}, "900 learned rows of orders wait, and none has been explained for ten minutes"),
        played=True,
    )
    .fires(
        "the aggregator is gone",
        {_ahead("orders"): hold(900, 30), _aggregated("orders"): grow(0, 10, 5) + gone(25)},
        (5, 30),
        [16, 29],
        [4, 8],
        ({"stream": "orders"}, "900 learned rows of orders wait, and none has been explained for ten minutes"),
    )
    .never("an idle stream", {_ahead("orders"): hold(0, 40), _aggregated("orders"): hold(100, 40)})
    .never(
        "an event every five minutes, each aggregated",
        {
            _ahead("orders"): (hold(1, 0.25) + hold(0, 4.75)) * 8,
            _aggregated("orders"): [float(row) for row in range(8) for _ in range(20)],
        },
    )
    .never("explained slowly", {_ahead("orders"): hold(900, 40), _aggregated("orders"): grow(0, 1, 40)})
    .never(
        "the learner and the aggregator are restarted",
        {
            _ahead("orders"): hold(90, 10) + gone(1) + hold(0, 1) + hold(90, 20),
            _aggregated("orders"): grow(0, 10, 10) + gone(1) + grow(350, 10, 21),
        },
    )
)


def _held(partition: int) -> str:
    return f'glasstream_holding_back{{stage="learner",instance="learner-0",partition="{partition}"}}'


_HOLDING: Final = (
    _Of("GlasstreamHoldingBack")
    .fires(
        "the learner waits for the aggregator, but for a moment in every five minutes",
        {_held(5): hold(0, 5) + (hold(1, 4.75) + hold(0, 0.25)) * 5 + hold(0, 15)},
        (5, 30),
        [21, 29],
        [4, 12, 34],
        (
            {"instance": "learner-0", "partition": "5"},
            "the learner learner-0 waits for the aggregator on partition 5 most of the time",
        ),
        played=True,
    )
    .never("it waits half of the time", {_held(5): [0.0, 1.0] * 80})
    .never("it waits for five minutes", {_held(5): hold(0, 10) + hold(1, 5) + hold(0, 20)})
)


def _unexplained(stream: str) -> str:
    return f'glasstream_rows_unexplained_total{{stage="aggregator",instance="aggregator-0",stream="{stream}"}}'


_COVERAGE: Final = (
    _Of("GlasstreamCoverage")
    .fires(
        "a twentieth of the rows cannot be explained for twenty minutes",
        {
            _unexplained("claims"): hold(0, 5) + grow(0, 1, 20) + hold(80, 30),
            _aggregated("claims"): grow(0, 20, 55),
        },
        (5, 25),
        [24.75],
        [4, 9, 42],
        ({"stream": "claims"}, "5% of the recent rows of claims could not be explained"),
        played=True,
    )
    .never(
        "rows that could not be explained long ago",
        {_unexplained("claims"): hold(5_000, 60), _aggregated("claims"): grow(6_000, 20, 60)},
    )
    .never("an idle stream", {_unexplained("claims"): hold(50, 60), _aggregated("claims"): hold(100, 60)})
    .never(
        "an aggregator that goes on from its state, some rows back",
        {
            _unexplained("claims"): hold(5_000, 60),
            _aggregated("claims"): grow(6_000, 20, 30) + gone(1) + grow(8_200, 20, 29),
        },
    )
)


def _counter(name: str, **labels: str) -> str:
    inside = ",".join(f'{label}="{value}"' for label, value in labels.items())
    return f"glasstream_{name}_total{{{inside}}}"


_FAILED_ROWS: Final = _counter("rows_failed", stage="explainer", instance="explainer-3")
_ROWS_FAILED: Final = (
    _Of("GlasstreamRowsFailed")
    .fires(
        "the model raises on three rows",
        {_FAILED_ROWS: hold(0, 5) + hold(3, 30)},
        (5, 5.25),
        [6, 14],
        [4, 21, 30],
        ({"instance": "explainer-3"}, "the model raised an error on 3 rows in the explainer explainer-3"),
        played=True,
    )
    .never("nothing happens", {_FAILED_ROWS: hold(0, 40)})
)

_LETTERS: Final = _counter("dead_letters", stage="learner", instance="learner-0", reason="not_json", partition="2")
_DEAD_LETTERS: Final = (
    _Of("GlasstreamDeadLetters")
    .fires(
        "a message is rejected",
        {_LETTERS: hold(0, 5) + hold(1, 30)},
        (5, 5.25),
        [6, 14],
        [4, 21, 30],
        ({"reason": "not_json"}, "1 messages were rejected, in whole or in part: not_json"),
        played=True,
    )
    .never("nothing happens", {_LETTERS: hold(0, 40)})
)

_RETYPED: Final = _counter("retyped_values", stage="learner", instance="learner-0", stream="visits")
_OVER: Final = _counter("over_limit_values", stage="learner", instance="learner-0", stream="visits")
_DROPPED: Final = (
    _Of("GlasstreamValuesDropped")
    .fires(
        "texts come where numbers came before, for ten minutes",
        {_RETYPED: hold(7, 20) + grow(8, 1, 10) + hold(47, 25)},
        (20, 30),
        [26, 34],
        [19, 22, 46],
        (
            {"stream": "visits"},
            "40 values of visits were treated as absent: their kind has changed, or they exceed a limit",
        ),
        played=True,
    )
    .fires(
        "values beyond a limit",
        {_RETYPED: hold(0, 40), _OVER: hold(0, 20) + hold(9, 20)},
        (20, 20.25),
        [26, 34],
        [19, 22, 36],
        (
            {"stream": "visits"},
            "9 values of visits were treated as absent: their kind has changed, or they exceed a limit",
        ),
    )
    .never(
        "a learner that goes on from its checkpoint",
        {_RETYPED: hold(100, 20) + gone(1) + grow(40, 5, 3) + hold(100, 30)},
    )
)

_BOUND: Final = _counter("bound_hits", stage="learner", instance="learner-0", bound="limits.rows_ahead", partition="1")
_BOUND_HIT: Final = (
    _Of("GlasstreamBoundHit")
    .fires(
        "the learner waits once",
        {_BOUND: hold(0, 5) + hold(1, 45)},
        (5, 5.25),
        [6, 28],
        [4, 36, 45],
        ({"stage": "learner", "bound": "limits.rows_ahead"}, "learner reached the bound limits.rows_ahead"),
        played=True,
    )
    .never("nothing happens", {_BOUND: hold(0, 60)})
)

_AGE: Final = 'glasstream_checkpoint_age_seconds{stage="learner",instance="learner-0",stream="clicks"}'
_LEARNED: Final = _counter("rows_learned", stage="learner", instance="learner-0", stream="clicks")
_CHECKPOINT: Final = (
    _Of("GlasstreamCheckpointOld")
    .fires(
        "no checkpoint is made for an hour",
        {_AGE: grow(0, 15, 60) + grow(0, 15, 10), _LEARNED: grow(0, 10, 70)},
        (30, 60),
        [42, 59],
        [29, 38, 61],
        ({"stream": "clicks"}, "the newest checkpoint of clicks is 59m 0s old"),
        played=True,
    )
    .never("an idle stream", {_AGE: grow(0, 15, 120), _LEARNED: hold(5_000, 120)})
    .never(
        "a stream that was idle for an hour goes on",
        {_AGE: grow(0, 15, 65) + grow(0, 15, 20), _LEARNED: hold(9, 60) + grow(10, 1, 25)},
    )
)

_DAMAGE: Final = _counter("damaged_messages", stage="aggregator", instance="aggregator-0", partition="1")
_DAMAGED: Final = (
    _Of("GlasstreamDamagedMessages")
    .fires(
        "two messages are damaged",
        {_DAMAGE: hold(0, 5) + hold(2, 45)},
        (5, 5.25),
        [6, 28],
        [4, 36, 45],
        ({"stage": "aggregator"}, "aggregator skipped 2 damaged messages"),
        played=True,
    )
    .never("nothing happens", {_DAMAGE: hold(0, 60)})
)

_AGAIN: Final = _counter("read_again", stage="explainer", instance="explainer-5")
_READ_AGAIN: Final = (
    _Of("GlasstreamReadAgain")
    .fires(
        "messages are lost eight times",
        {_AGAIN: hold(0, 5) + hold(8, 70)},
        (5, 5.25),
        [6, 58],
        [4, 67, 74],
        (
            {"stage": "explainer", "instance": "explainer-5"},
            "explainer-5 (explainer) read messages again 8 times in an hour, because fetched messages had a gap",
        ),
        played=True,
    )
    .never("four times in an hour", {_AGAIN: hold(0, 20) + hold(2, 20) + hold(4, 50)})
)

_MAP: Final = 'glasstream_waiting_for_map{stage="novelty",instance="novelty-0",partition="6"}'
_WAITING: Final = (
    _Of("GlasstreamWaitingForMap")
    .fires(
        "every map is waited for",
        {_MAP: hold(0, 5) + (hold(1, 4.75) + hold(0, 0.25)) * 5 + hold(0, 15)},
        (5, 30),
        [21, 29],
        [4, 12, 34],
        ({"partition": "6"}, "scoring of partition 6 waits for a map most of the time"),
        played=True,
    )
    .never("it waits half of the time", {_MAP: [0.0, 1.0] * 80})
)

_UNFITTED: Final = _counter("windows_without_map", stage="novelty", instance="novelty-0", stream="loans")
_NO_MAP: Final = (
    _Of("GlasstreamNoMap")
    .fires(
        "two windows have one class only",
        {_UNFITTED: hold(0, 5) + hold(2, 45)},
        (5, 5.25),
        [6, 34],
        [4, 36, 45],
        ({"stream": "loans"}, "no map could be fitted to 2 windows of loans"),
        played=True,
    )
    .never(
        "a novelty detector that goes on from its state",
        {_UNFITTED: hold(5, 50) + gone(2) + hold(3, 2) + hold(5, 50)},
        35,
    )
    .never("a novelty detector that was away for two hours", {_UNFITTED: hold(5, 50) + gone(120) + hold(5, 50)}, 35)
)


def _posts(outcome: str) -> str:
    return _counter("webhook_posts", stage="notify", instance="notify-0", outcome=outcome)


_DELIVERIES: Final = (
    _Of("GlasstreamDeliveriesFail")
    .fires(
        "the webhook fails for twenty minutes, with a request every two minutes",
        {
            _posts("ok"): hold(3, 60),
            _posts("failed"): hold(1, 5) + [float(2 + place // 8) for place in range(80)] + hold(11, 35),
            _posts("refused"): hold(0, 60),
        },
        (5, 25),
        [12, 24],
        [4, 9, 41],
        ({"instance": "notify-0"}, "the webhook did not accept 7 requests of the notifier notify-0 in 15 minutes"),
        played=True,
    )
    .fires(
        "the webhook refuses every request",
        {_posts("ok"): hold(0, 60), _posts("failed"): hold(0, 60), _posts("refused"): hold(0, 5) + grow(4, 1, 55)},
        (5, 60),
        [12, 59],
        [4],
        ({"instance": "notify-0"}, "the webhook did not accept 60 requests of the notifier notify-0 in 15 minutes"),
    )
    .never(
        "a request fails now and then, and is repeated",
        {_posts("ok"): grow(0, 1, 60), _posts("failed"): [float(place // 4) for place in range(240)]},
    )
    .never("nothing happens", {_posts(outcome): hold(7, 60) for outcome in ("ok", "failed", "refused")})
)

_SKIPPED_COUNTER: Final = _counter("incidents_skipped", stage="notify", instance="notify-0")
_SKIPPED: Final = (
    _Of("GlasstreamIncidentsSkipped")
    .fires(
        "an incident is refused for good",
        {_SKIPPED_COUNTER: hold(0, 5) + hold(1, 75)},
        (5, 5.25),
        [6, 64],
        [4, 66, 79],
        ({"instance": "notify-0"}, "the notifier notify-0 skipped 1 incidents, because the webhook refused them"),
        played=True,
    )
    .never("nothing happens", {_SKIPPED_COUNTER: hold(0, 80)})
)

_BROKEN: Final = 'glasstream_incident_open{stage="aggregator",stream="quotes",verdict="feature_broken"}'
_UNCLEAR: Final = _BROKEN.replace("feature_broken", "unclear")
_INCIDENT: Final = (
    _Of("GlasstreamIncident")
    .fires(
        "an incident is opened, gets another verdict, and is over",
        {_UNCLEAR: gone(5) + hold(1, 2) + gone(13), _BROKEN: gone(7) + hold(1, 6) + gone(7)},
        (7, 13),
        [8, 12],
        [4, 14],
        (
            {"stream": "quotes", "verdict": "feature_broken"},
            "quotes: an incident is open, feature_broken; `glasstream incidents` says what happened",
        ),
        played=True,
    )
    .never("no incident", _ALL)
)

_DRIFTED: Final = _counter("drift_alarms", stage="aggregator", instance="aggregator-0", stream="quotes")
_DRIFT: Final = (
    _Of("GlasstreamDrift")
    .fires(
        "an alarm",
        {_DRIFTED: hold(0, 5) + hold(1, 20)},
        (5, 5.25),
        [6, 9],
        [4, 16, 20],
        ({"stream": "quotes"}, "quotes: what the model relies on has changed (1 alarms)"),
        played=True,
    )
    .never("nothing happens", {_DRIFTED: hold(0, 40)})
)

_NOVEL: Final = _counter("novelty_alarms", stage="novelty", instance="novelty-0", stream="trades")
_NOVELTY: Final = (
    _Of("GlasstreamNovelty")
    .fires(
        "an alarm",
        {_NOVEL: hold(0, 5) + hold(1, 20)},
        (5, 5.25),
        [6, 14],
        [4, 16, 20],
        (
            {"stream": "trades"},
            "trades: the share of novel events has changed",
        ),
        played=True,
    )
    .never(
        "a novelty detector that goes on from its state", {_NOVEL: hold(5, 30) + gone(2) + hold(3, 2) + hold(5, 30)}, 11
    )
)

CASES: Final[list[Case]] = [
    case
    for one in (
        _STAGE_GONE, _WORKER_DOWN, _RESTARTING, _STALLED, _NOT_READY, _INPUT_WAIT, _LAG, _NOTHING, _HOLDING, _COVERAGE,
        _ROWS_FAILED, _DEAD_LETTERS, _DROPPED, _BOUND_HIT, _CHECKPOINT, _DAMAGED, _READ_AGAIN, _WAITING, _NO_MAP,
        _DELIVERIES, _SKIPPED, _INCIDENT, _DRIFT, _NOVELTY,
    )
    for case in one.cases
]  # fmt: skip
