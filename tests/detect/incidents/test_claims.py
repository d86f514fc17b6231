"""What an incident says is said only with enough evidence, and what its evidence shows is said."""

import numpy as np
import pytest

from glasstream.detect.incidents.alarm import GATHERED, NORMAL
from glasstream.detect.incidents.betting import BINS, EDGES
from glasstream.detect.incidents.histogram import Histogram
from glasstream.detect.incidents.losses import BEFORE, RUN, RUNS, Losses
from glasstream.detect.incidents.series import Name
from glasstream.detect.incidents.summary import summary
from glasstream.detect.incidents.verdict import Judgement
from glasstream.detect.incidents.watch import IncidentWatch
from glasstream_topics.incidents import Onset, Where
from tests.support.incident_streams import AT, Stream, changed, data_moved, reasoning_moved, watched

SAME = "labels at equal values are as before"
UNKNOWN = "whether the rule of the labels changed is not known yet"


def leaked(stream: Stream) -> None:
    """Let `b` tell the label, which the model has learned at once."""
    stream.inputs[AT:, 1] = 20.0 * stream.target[AT:] + stream.draws.exponential(size=len(stream.target) - AT)
    stream.loss[AT:] = 0.001


def copied(stream: Stream) -> None:
    """Let `a` have the values of `b`. The model, which relies on `a`, does as before by chance."""
    stream.inputs[AT:, 0] = stream.inputs[AT:, 1]


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("change", [leaked, copied])
def test_a_feature_that_broke_is_not_said_to_leave_the_rule_as_it_is(change, seed: int) -> None:  # type: ignore[no-untyped-def]
    said = watched(changed(change, seed))
    assert said and not any(SAME in one.summary or one.rule == "same" for one in said)


def larger(stream: Stream) -> None:
    stream.inputs[AT:, 1] *= 1.8


def test_the_same_rule_is_claimed_once_enough_rows_show_it() -> None:
    said = [[one for one in watched(changed(larger, seed)) if one.status == "open"] for seed in range(5)]
    assert all(UNKNOWN in first.summary and first.rule == "unknown" for first, *_ in said)
    later = [more[-1] for _, *more in said if more]
    assert len(later) >= 3
    assert all(SAME in one.summary and one.rule == "same" for one in later)


def test_the_same_rule_is_not_claimed_of_values_that_crowd_in_a_few_bins() -> None:
    said = [one for seed in range(5) for one in watched(changed(data_moved, seed))]
    assert said and not any(one.rule == "same" for one in said)


@pytest.mark.parametrize("seed", range(3))
def test_labels_that_become_noisy_are_not_blamed_on_the_model_alone(seed: int) -> None:
    stream = Stream(seed)
    noisy = stream.draws.random(len(stream.target) - AT) < 0.25
    stream.target[AT:][noisy] = 1.0 - stream.target[AT:][noisy]
    stream.loss[AT:][noisy] = 0.9 - stream.loss[AT:][noisy]
    said = [one for one in watched(stream) if one.status == "open"]
    assert said and all("label" in one.summary for one in said)


@pytest.mark.parametrize("seed", range(3))
def test_loss_figures_are_means_before_and_since_the_onset(seed: int) -> None:
    """The model recovers, so that the newest rows have a low loss again."""
    stream = Stream(seed)
    stream.inputs[AT:, 1] *= 1_000.0
    stream.loss[AT : AT + 150] = 0.9
    first = watched(stream)[0]
    for one in (first,):
        onset, row = one.onset.row - 100, one.row - 100
        assert one.loss_after == pytest.approx(stream.loss[onset : row + 1].mean(), rel=0.15)
        assert one.loss_before == pytest.approx(stream.loss[onset - BEFORE : onset].mean(), rel=0.05)
    assert "the Brier loss rose" in first.summary and first.loss_after > first.loss_before + 0.05


def few_missing(stream: Stream) -> None:
    stream.inputs[AT:, 0][stream.draws.random(len(stream.inputs) - AT) < 0.05] = np.nan


def a_bit_larger(stream: Stream) -> None:
    stream.inputs[AT:, 1] *= 1.19


@pytest.mark.parametrize("change", [few_missing, a_bit_larger])
def test_a_slight_change_that_lasts_is_found_by_all_rows_since_it_began(change) -> None:  # type: ignore[no-untyped-def]
    """The 150 rows after the alarm do not show it."""
    found = 0
    for seed in range(8):
        stream = Stream(seed, 9_000)
        change(stream)
        said = watched(stream)
        assert all((one.verdict, one.status) != ("data_moved", "over") for one in said)
        found += any([one.feature for one in first.features] == ["ab"[change is a_bit_larger]] for first in said[:1])
    assert found >= 4


def test_an_incident_that_lasts_is_not_over() -> None:
    """A new category comes in 15 % of the rows, and never goes away."""
    for seed in range(5):
        stream = Stream(seed, 9_000)
        stream.inputs[AT:, 3][stream.draws.random(9_000 - AT) < 0.15] = 3.0
        assert [one.status for one in watched(stream) if one.status != "open"] == ["normal"]


def test_a_feature_that_opens_no_incident_any_more_is_named() -> None:
    stream = Stream(1, 20_000)
    for at in range(AT, 20_000, 4_000):
        stream.inputs[at:, 1] += 30.0
    normal = [one for one in watched(stream) if one.status == "normal"]
    assert [one.muted for one in normal] == [[], ["b"]]
    assert normal[1].summary.endswith("further moves of b alone open no incident.")


def test_a_feature_that_broke_is_watched_as_before() -> None:
    """That it broke, and came back, for so long that both became normal, are one move and not two."""
    stream = Stream(1, 16_000)
    for at in (AT, 10_000):
        stream.inputs[at : at + 3_000, 1] = 2.0
    said = watched(stream)
    assert sum(one.status == "open" and one.verdict == "feature_broken" for one in said) >= 2
    assert not any(one.muted for one in said if one.row < 13_000)


def rounded(stream: Stream) -> None:
    low, high = np.quantile(stream.inputs[:AT, 0], [0.05, 0.95])
    stream.inputs[AT:, 0] = low + np.round((stream.inputs[AT:, 0] - low) / (high - low) * 4) / 4 * (high - low)


def gathered(stream: Stream) -> None:
    stream.inputs[AT:, 0] = np.where(stream.draws.random(len(stream.inputs) - AT) < 0.25, 0.0, stream.inputs[AT:, 0])


@pytest.mark.parametrize("change", [rounded, gathered])
@pytest.mark.parametrize("seed", range(3))
def test_values_that_gather_within_a_distribution_are_found(change, seed: int) -> None:  # type: ignore[no-untyped-def]
    """They neither rise nor spread: only bets on cells of the ranks gain."""
    stream = Stream(seed, 5_500)
    change(stream)
    first, *_ = watched(stream)
    assert [one.feature for one in first.features] == ["a"]
    assert first.row < 100 + AT + 1_000


def test_gross_faults_are_found_while_the_model_is_worse() -> None:
    stream = Stream(2, 9_000)
    stream.loss[AT:] += 0.3
    stream.inputs[AT + 1_500 :, 1] *= 1_000.0
    said = watched(stream)
    ended = next(one for one in said if one.status != "open")
    assert (ended.incident, ended.status, ended.verdict) == (1, "normal", "model_replaced")
    first = next(one for one in said if one.incident == 2)
    assert (first.verdict, [one.feature for one in first.features]) == ("feature_broken", ["b"])
    assert first.row < 100 + AT + 1_900


def test_values_beyond_all_edges_are_those_that_bins_do_not_tell_apart() -> None:
    nothing = np.zeros(BINS)
    before = Histogram(np.array([1.0, 2.0, 5.0]), nothing, nothing, nothing, 1)
    assert before.beyond(np.array([0.0, 1.0, 1.5, 5.0, 6.0, 7.0, np.nan, 2.0])) == 3 / 8


def test_another_change_ends_an_incident_that_is_open() -> None:
    stream = Stream(1, 8_000)
    stream.inputs[AT:, 1] += 20.0
    stream.inputs[AT + 1_000 :, 0] *= 1_000.0
    said = watched(stream)
    ended = next(one for one in said if one.status != "open")
    assert (ended.incident, ended.status, ended.verdict) == (1, "normal", "data_moved")
    first = next(one for one in said if one.incident == 2)
    assert (first.status, first.verdict) == ("open", "feature_broken")
    assert first.onset.row < 100 + AT + 1_050 and first.row < 100 + AT + 1_400


@pytest.mark.parametrize(("step", "keeps"), [(0.5, True), (30.0, False)])
def test_bins_that_fit_are_kept_when_a_move_becomes_normal(step: float, keeps: bool) -> None:
    """Later values are then compared with all since the alarm."""
    stream, watch = Stream(1, 6_000), IncidentWatch("s", 0, 7, 0.5)
    stream.inputs[AT:, 0] += step
    normal = next(one for one in watch.update(stream.rows()) if one.status == "normal")
    kept = watch.series.histogram(Name("input", 0)).total
    assert normal.verdict == "data_moved" and kept == (NORMAL if keeps else 0)


def test_means_of_losses_are_those_of_whole_runs() -> None:
    draws = np.random.default_rng(1)
    loss, kept = draws.random(20_000), Losses()
    for first in range(0, 20_000, 37):
        kept.add(7 + first, loss[first : first + 37])
    row = 18_007
    before, after = kept.means(row)
    begin, end = row // RUN * RUN - 7, (row // RUN + 1) * RUN - 7
    assert before == pytest.approx(loss[begin - BEFORE : begin].mean())
    assert after == pytest.approx(loss[end:].mean())
    assert len(kept.sums) == RUNS
    assert kept.means(7)[0] is None and kept.means(30_000)[1] is None


def test_a_run_of_one_value_as_there_were_before_is_nothing_broken() -> None:
    """A day has 300 rows."""
    stream = Stream(1, 12_000)
    stream.inputs[:, 3] = np.arange(12_000) // 300 % 7
    assert not [one.summary for one in watched(stream) if one.verdict == "feature_broken"]


def nearly_constant(stream: Stream) -> None:
    """`colour` has another value in each hundredth row only."""
    stream.inputs[AT:, 3] = 1.0
    stream.inputs[AT::100, 3] = 0.0


@pytest.mark.parametrize("seed", range(5))
def test_a_value_of_nearly_all_rows_is_not_the_only_one(seed: int) -> None:
    opened = [one for one in watched(changed(nearly_constant, seed)) if one.status == "open"]
    assert {one.verdict for one in opened} == {"data_moved"}
    assert {(one.feature, one.fault) for record in opened for one in record.features} == {("colour", "shifted")}


def repeated(stream: Stream) -> None:
    """Let each row come twenty times in turn, so that seven of 150 rows are independent."""
    for array in (stream.inputs, stream.target, stream.loss):
        array[:] = np.repeat(array[::20], 20, axis=0)


@pytest.mark.parametrize("alike", [False, True])
def test_inputs_are_said_to_be_as_before_only_if_the_rows_would_tell(alike: bool) -> None:
    stream = Stream(1)
    if alike:
        repeated(stream)
    reasoning_moved(stream)
    moved = [one for one in watched(stream) if one.verdict == "reasoning_moved"]
    assert moved and all(("as before" in one.summary) is not alike for one in moved)


@pytest.mark.parametrize(("after", "rose"), [(0.4, True), (0.2, False)])
def test_the_sentence_tells_where_the_loss_rose_only_if_it_rose(after: float, rose: bool) -> None:
    judgement = Judgement("concept_moved", 1.0, [], [], [], [], [], "other")
    where = Where("loss", "everywhere", 300, 300, 0.2, [])
    sentence = summary(judgement, Onset(20, 10, 30), "brier", 0.3, after, [], where)
    assert sentence.endswith("the loss rose everywhere.") is rose


def alike(stream: Stream, correlation: float = 0.96) -> np.ndarray:
    """Let `a` be a temperature that follows the one before it, and the labels be independent of it."""
    values = stream.draws.normal(scale=(1.0 - correlation**2) ** 0.5, size=len(stream.inputs))
    for row in range(1, len(values)):
        values[row] += correlation * values[row - 1]
    stream.inputs[:, 0] = 60.0 + 10.0 * values
    stream.target[:] = stream.draws.random(len(values)) < 0.5
    return stream.inputs[:, 0]


@pytest.mark.parametrize("seed", range(5))
def test_a_sensor_that_freezes_is_found_although_rows_resemble_their_neighbours(seed: int) -> None:
    stream = Stream(seed, 9_000)
    values = alike(stream)
    values[AT:] = values[AT]
    first, *_ = watched(stream)
    assert [(one.feature, one.fault) for one in first.features] == [("a", "constant")]
    assert first.onset.row == 100 + AT and first.row <= 100 + AT + 2 * GATHERED


@pytest.mark.parametrize("seed", range(5))
def test_bins_tell_values_apart_that_the_first_rows_did_not_have(seed: int) -> None:
    """The first 300 of these rows tell as much as six that are independent."""
    stream = Stream(seed, 9_000)
    alike(stream)
    watch = IncidentWatch("s", 0, 7, 0.5)
    assert not list(watch.update(stream.rows()))
    before = watch.series.histogram(Name("input", 0))
    assert before.shares[1::2].max() < 3.0 / EDGES
    assert before.total > 1_000


@pytest.mark.parametrize("seed", range(3))
def test_bins_that_are_made_again_keep_the_values_of_a_sample(seed: int) -> None:
    """As many lie below each edge as in all rows but the first, up to a few standard errors of the sample."""
    stream, watch = Stream(seed, 1_400), IncidentWatch("s", 0, 7, 0.5)
    stream.inputs[:, 0] = np.arange(1_400) * 0.7549 % 1.0
    stream.inputs[:300, 0] *= 0.1
    list(watch.update(stream.rows()))
    one = watch.series.histogram(Name("input", 0))
    below = (stream.inputs[300:, :1] < one.edges).mean(axis=0)
    assert len(one.edges) == EDGES and one.edges[-2] > 0.6
    assert np.abs(np.cumsum(one.shares)[1 : 2 * EDGES : 2] - below).max() < 4.0 * (0.25 / one.total) ** 0.5


def test_a_change_does_not_lengthen_the_blocks_by_which_it_is_judged() -> None:
    stream = Stream(1, 5_000)
    values = alike(stream, 0.9)
    values[AT:] = (values[AT:] - 32.0) * 5.0 / 9.0
    watch, one, judged = IncidentWatch("s", 0, 7, 0.5), Name("input", 0), 0
    list(watch.update(stream.rows(0, AT)))
    for row in range(AT, 5_000):
        strong, block = one in watch.series.strong(), watch.series.histogram(one).block
        if list(watch.update(stream.rows(row, row + 1))):
            break
        judged += strong
        assert not strong or watch.series.histogram(one).block == block
    assert judged > 150


def test_a_feature_that_once_varied_does_not_come_alive() -> None:
    """A season lasts so long that it has become normal."""
    stream = Stream(1, 20_000)
    stream.inputs[:, 3] = np.arange(20_000) // 4_000 % 4
    said = [one for one in watched(stream) if one.status == "open"]
    assert [one.verdict for one in said if one.row < 12_000] == ["feature_alive", "data_moved"]
