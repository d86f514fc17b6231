"""The report of a run cuts nothing and omits nothing."""

import io

import pytest
from rich.console import Console

from glasstream.app.runner.report import Report
from glasstream.flow.learner.dead_letters import DeadLetter
from glasstream_topics import drift, events_dead, groups, importance, novelty, predictions


def report(width: int, total: int | None = None) -> tuple[Report, io.StringIO]:
    shown = io.StringIO()
    return Report(Console(file=shown, width=width, highlight=False, markup=False), total), shown


def prediction(
    seq: int,
    target: float | str | None,
    metric: float | None,
    name: str = "mae",
    epoch: int = 0,
    predicted: float | str | None = None,
) -> bytes:
    return predictions.encode(
        epoch=epoch, stream="s", seq=seq, id=str(seq), prediction=predicted, probabilities=None, target=target,
        loss=None, loss_name="squared", metric_name=name, metric_value=metric, model_version=0,
    )  # fmt: skip


def estimate(row: int, values: dict[str, float]) -> bytes:
    numbers = list(values.values())
    return importance.encode(
        epoch=0, stream="s", row=row, seq=row, method="ipfi", loss="squared", alpha=0.001, sampling="geometric", n=1,
        coverage=1.0, model_version=1, lag=0, names=list(values), value=numbers, raw=numbers,
        variance=[abs(number) for number in numbers], low=[number - 0.7071 for number in numbers],
        high=[number + 0.7071 for number in numbers], interval_kind="normal", interval_level=0.95,
    )  # fmt: skip


@pytest.mark.parametrize("width", [30, 60, 80, 10_000])
def test_the_table_shows_every_name_and_number_at_any_width(width: int) -> None:
    """A name may go over several lines, between the same two borders."""
    names = ["temperature[K]_of_the_third_sensor_in_the_northern_hall" + "x" * 40, "[bold]", "b"]
    one, shown = report(width)
    one.add("importance", [estimate(row, dict(zip(names, (0.5, 0.25, 0.125), strict=True))) for row in (99, 199)])
    one.table(1.0)
    text = shown.getvalue()
    assert "…" not in text
    cells = "".join(line.split("│")[2].strip() for line in text.splitlines() if line.startswith("│"))
    assert cells == "".join(names)
    for number in ("0.5000", "0.2500", "0.1250", "0.7071"):
        assert number in text


def test_a_wide_stream_shows_its_most_important_features_and_counts_the_others() -> None:
    one, shown = report(200)
    one.add("importance", [estimate(99, {f"feature_{place}": 1.0 / (1 + place) for place in range(300)})])
    one.table(1.0)
    text = shown.getvalue()
    assert "feature_0 " in text and "feature_29 " in text and "feature_30" not in text
    assert "and 270 less important features (the topic has them, too)" in text


def test_no_zero_is_negative() -> None:
    one, shown = report(200)
    one.add("importance", [estimate(99, {"a": 0.00001}), estimate(199, {"a": -0.00001})])
    one.table(1.0)
    assert "0.0000" in shown.getvalue() and "-0.0000" not in shown.getvalue()


@pytest.mark.parametrize(
    ("said", "expected"),
    [
        ("no", "warning: the model is no better than a baseline: right in 75.0% (the model), 75.0% (always 'no'), "),
        ("right", "compared with baselines: right in 100.0% (the model), 75.0% (always 'no'), 50.0% "),
    ],
)
def test_the_model_is_shown_beside_its_baselines(said: str, expected: str) -> None:
    one, shown = report(200)
    targets = ["no", *(["no", "no", "yes", "no"] * 10)]
    one.add(
        "predictions",
        [
            prediction(seq, target, 0.8, "accuracy", predicted=target if said == "right" else said)
            for seq, target in enumerate(targets)
        ],
    )
    one.add("importance", [estimate(99, {"a": 1.0})])
    one.table(1.0)
    assert expected in shown.getvalue()
    beyond = "kappa-M 1.000, kappa-temporal 1.000, balanced accuracy 100.0%"
    if said == "no":
        beyond = "kappa-M 0.000, kappa-temporal 0.500, balanced accuracy 50.0%"
    assert f"beyond the baselines: {beyond}" in shown.getvalue()


def test_a_few_events_are_no_reason_for_a_warning() -> None:
    one, shown = report(200)
    one.add("predictions", [prediction(seq, "no", 0.0, "accuracy", predicted="yes") for seq in range(5)])
    one.add("importance", [estimate(99, {"a": 1.0})])
    one.table(1.0)
    assert "compared with baselines, on only 4 events that came with their labels: right in 0.0%" in shown.getvalue()
    assert "warning" not in shown.getvalue()


def test_the_newest_groups_of_each_attribute_are_shown_even_without_explanations() -> None:
    def record(attribute: str, rows: int) -> bytes:
        big = groups.Group("value", groups.Mean(rows, 0.25), "[m]", groups.Mean(rows, 0.75, 0.5, 0.875))
        small = groups.Group("value", groups.Mean(7), "f", groups.Mean(7))
        total = groups.Summary(rows + 7, [big, small, groups.Group("missing", groups.Mean(1), None, groups.Mean(1))])
        alarm = groups.Alarm("accuracy", ["[m]"], 90, 90, 0.875, 0.75, 4.0, f"accuracy of {attribute} = '[m]' fell")
        return groups.encode(
            epoch=0, stream="s", seq=rows, attribute=attribute, loss="brier", classes=["a", "b"], more_classes=False,
            least=30, level=0.95, left_out=0, window=total, total=total, alarms=[alarm] * (rows == 200),
        )  # fmt: skip

    one, shown = report(200)
    one.add("groups", [record("sex", 100), record("region", 100), record("sex", 200)])
    one.table(1.0)
    text = shown.getvalue()
    assert "s: groups by sex, 207 rows (95% intervals)" in text and "groups by region, 107 rows" in text
    cells = [[cell.strip() for cell in line.split("│")[1:-1]] for line in text.splitlines() if line.startswith("│")]
    assert cells[:3] == [
        ["[m]", "200", "0.7500", "0.5000 to 0.8750", "0.2500"],
        ["f", "7", "–", "–", "–"],
        ["(missing)", "1", "–", "–", "–"],
    ]
    assert "differences between the groups of sex: none, because fewer than two groups have 30 rows" in text
    assert text.count("alarm: ") == 1 and "alarm: accuracy of sex = '[m]' fell" in text


def test_events_without_a_label_are_counted() -> None:
    one, shown = report(200)
    one.add("predictions", [prediction(seq, None, None) for seq in range(3)])
    one.table(1.0)
    assert "3 events in 1.0 s, 3 of them came without a label (such an event is learned when" in shown.getvalue()
    assert "no labelled event so far; no explanations" in shown.getvalue()


def test_labels_that_came_after_the_last_event_are_told_apart_from_none() -> None:
    one, shown = report(300)
    one.add("predictions", [prediction(seq, None, None) for seq in range(3)])
    one.add("importance", [estimate(2, {"a": 0.5})])
    one.table(1.0)
    assert "no metric, because the labels came after the last event, 1 rows explained" in shown.getvalue()
    assert "no labelled event so far" not in shown.getvalue()


def test_novelty_is_counted_if_it_is_asked_for() -> None:
    def novel(seq: int, flagged: bool, alarm: novelty.Alarm | None = None) -> bytes:
        return novelty.encode(
            epoch=0, stream="s", seq=seq, id="i", indicator=1.0, baseline=1.0, threshold=1.0, flagged=flagged,
            map_version=1, attribution={"a": 1.0}, alarm=alarm,
        )  # fmt: skip

    shown = io.StringIO()
    one = Report(Console(file=shown, width=200, highlight=False, markup=False), None, novelty=True)
    one.add("predictions", [prediction(seq, 1.0, 0.5) for seq in range(1_203)])
    one.table(1.0)
    assert "novelty: no event scored; the first map needs novelty.window labelled events" in shown.getvalue()
    one.add("novelty", [novel(1_199, False), novel(1_200, False), novel(1_201, True)])
    one.add("novelty", [novel(1_202, False, novelty.Alarm(before=0.0, after=0.5, width=2))])
    one.table(1.0)
    said = "novelty: 4 events scored, 1 of them flagged (25.0%), alarms: 1, from event 1,202 to 1,202"
    assert said in shown.getvalue()
    one, shown = report(200)
    one.add("predictions", [prediction(0, 1.0, 0.5)])
    one.table(1.0)
    assert "novelty" not in shown.getvalue()


def test_a_stream_that_has_begun_anew_is_shown_as_of_then() -> None:
    """The model that diverged is forgotten, and what comes late of it changes nothing."""
    one, shown = report(200)
    one.add("predictions", [prediction(seq, 1.0, 2.0) for seq in range(50)])
    one.add("predictions", [prediction(seq, 4.0, 0.5, epoch=1) for seq in range(3)])
    one.add("predictions", [prediction(50, 1.0, 2.0)])
    one.add("importance", [estimate(99, {"a": 0.5})])
    one.table(1.0)
    assert one.predicted == 54
    assert "3 events" in shown.getvalue() and "mae 0.5" in shown.getvalue()
    assert "no explanations" in shown.getvalue()


def test_labelled_events_are_not_mentioned() -> None:
    one, shown = report(200)
    one.add("predictions", [prediction(seq, 1.0, 0.5) for seq in range(3)])
    one.table(1.0)
    assert "without a label" not in shown.getvalue()


def test_an_interrupted_run_says_that_its_results_are_partial() -> None:
    one, shown = report(200, total=9_000)
    one.add("predictions", [prediction(0, 1.0, 0.5)])
    one.table(1.0, interrupted_after=1_200)
    assert "interrupted after 1,200 of 9,000 events; the results are partial" in shown.getvalue()


def test_a_divergence_is_said_once_and_before_all_results() -> None:
    one, shown = report(1_000)
    one.add("predictions", [prediction(seq, 4.0, None, predicted=4e3 if seq < 50 else 4.0) for seq in range(99)])
    assert shown.getvalue() == "", "the first predictions may be far off"
    one.add("predictions", [prediction(seq, 4.0, None, predicted=1e100) for seq in range(99, 350)])
    assert (
        shown.getvalue().count("s: warning: the model diverges, as of event 200: the mean absolute error of its ") == 1
    )
    assert "the largest target, 4. Its importances, " in shown.getvalue()
    assert "or scale the features in your own model" in shown.getvalue()
    one.add("importance", [estimate(99, {"a": 1e200})])
    shown.truncate(0)
    one.table(1.0)
    assert shown.getvalue().lstrip("\0").startswith("s: warning: the model diverges, as of event 200: ")


def test_one_absurd_prediction_does_not_hide_how_good_a_regression_is_now() -> None:
    one, shown = report(1_000)
    targets = [4.0 + seq % 3 for seq in range(2_000)]
    predicted = [1e9 if seq == 40 else target + 0.5 for seq, target in enumerate(targets)]
    one.add("predictions", [prediction(seq, targets[seq], 5e5, predicted=predicted[seq]) for seq in range(2_000)])
    one.add("importance", [estimate(99, {"a": 1.0})])
    one.table(1.0)
    text = shown.getvalue()
    assert (
        "s: warning: the model diverged near event 200, and has recovered: the mean absolute error of its last " in text
    )
    assert "2,000 events in 1.0 s, 1 rows explained" in text, "the mean absolute error is below, once"
    assert "warning: the model is no better than a baseline: mean absolute error 5.00" in text
    assert "compared with baselines over the last 1,000 events: mean absolute error 0.5000 (the model), 0.66" in text


def test_a_regression_that_beats_the_mean_only_is_told_from_one_that_beats_nothing() -> None:
    one, shown = report(1_000)
    targets = [float(seq // 50 % 2) for seq in range(400)]
    one.add("predictions", [prediction(seq, y, 0.2, predicted=abs(y - 0.2)) for seq, y in enumerate(targets)])
    one.add("importance", [estimate(99, {"a": 1.0})])
    one.table(1.0)
    assert "warning: the model beats the mean, but not the previous label: mean absolute error 0.2" in shown.getvalue()


def letter(reason: str, rejected: list[tuple[int, str]] | None = None) -> bytes:
    said = events_dead.headers(
        epoch=0, reason=reason, topic="events", partition=0, offset=0, time=0, detail="why", rejected=rejected
    )
    return DeadLetter(0, b"s", None, tuple(said)).as_json()


@pytest.mark.parametrize(
    ("failed", "why"),
    [
        (0, "too few labelled events (1; see explain.reservoir and explain.start)"),
        (1, "the model raised errors and has learned too few events"),
    ],
)
def test_a_run_without_explanations_says_why(failed: int, why: str) -> None:
    one, shown = report(300)
    one.add("predictions", [prediction(0, 1.0, 0.5)])
    one.add("events.dead", [letter("model_error")] * failed)
    one.table(1.0)
    assert f"s: 1 event in 1.0 s, mae 0.5000; no explanations: {why}\n" in shown.getvalue()


@pytest.mark.parametrize("some_explained", [False, True])
def test_rows_that_could_not_be_explained_are_counted_with_the_cause(some_explained: bool) -> None:
    one, shown = report(300)
    one.add("predictions", [prediction(seq, 1.0, 0.5) for seq in range(2_000)])
    if some_explained:
        one.add("importance", [estimate(99, {"a": 0.5})])
    one.table(1.0, unexplained={"s": (1_900, "NotImplementedError: in a kernel"), "t": (0, "")})
    text = shown.getvalue()
    assert "s: warning: 1,900 rows could not be explained; the first because: NotImplementedError: in a kernel" in text
    assert ("no explanations: every explanation failed" in text) == (not some_explained)
    assert "too few" not in text and "t:" not in text


def test_dead_letters_are_counted_with_their_events() -> None:
    one, shown = report(200)
    one.add("predictions", [prediction(0, 1.0, 0.5)])
    one.add("importance", [estimate(99, {"a": 0.5})])
    one.table(1.0)
    assert "dead letters: 0\n" in shown.getvalue()
    one.add("events.dead", [letter("rejected_elements", [(n, "bad_id" if n else "no_x") for n in range(5)])])
    one.add("events.dead", [letter("rejected_elements", [(n, "no_x") for n in range(1_500)]), letter("not_json")])
    one.table(1.0)
    counts = "no_x 1,001, not_listed 500, bad_id 4, not_json 1"
    assert f"dead letters: 3 with 1,506 rejected events ({counts}); the first: why\n" in shown.getvalue()


def test_the_rate_is_that_since_the_line_before() -> None:
    one, shown = report(200)
    one.progress(10.0)
    one.add("predictions", [prediction(seq, 1.0, 0.5) for seq in range(10)])
    one.progress(20.0)
    first = shown.getvalue()
    assert "10 events" in first and "/s" not in first, "it would hold how long the stages took to start"
    one.add("predictions", [prediction(seq, 1.0, 0.5) for seq in range(10, 50)])
    one.progress(21.0)
    assert shown.getvalue() == first
    one.progress(24.0)
    assert "50 events        10/s" in shown.getvalue()


def alarm(row: int, feature: str | None) -> bytes:
    return drift.encode(
        epoch=0, stream="s", row=row, seq=row, signal="importance" if feature else "loss", feature=feature,
        method="ipfi" if feature else None, model_version=1, coverage=1.0, before=0.0, after=1.0, width=10,
        curve_before=None, curve_after=None, detector="adwin", parameters={"delta": 0.5},
    )  # fmt: skip


def test_alarms_are_counted() -> None:
    one, shown = report(200)
    one.add("importance", [estimate(99, {"a": 0.5})])
    one.table(1.0)
    assert "drift alarms: 0\n" in shown.getvalue()
    one.add("drift", [alarm(1_200, "a"), alarm(1_100, None), alarm(2_300, "a")])
    one.table(1.0)
    assert "drift alarms: 3 (2 on a, 1 on the loss), rows 1,100 to 2,300\n" in shown.getvalue()
