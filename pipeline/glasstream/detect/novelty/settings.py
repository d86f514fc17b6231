"""The section `novelty` of the settings."""

from typing import Annotated

from msgspec import Meta, Struct

from glasstream.base.changes import ChangesNothing, ChangesNovelty
from glasstream.base.errors import SettingsError
from glasstream.detect.drift.detector import Parameters
from glasstream.detect.gbmap.settings import GbmapSettings, least_held

_Positive = Annotated[int, Meta(ge=1)]
_Natural = Annotated[int, Meta(ge=0)]


class NoveltySettings(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Settings of the novelty detector.

    The detector fits a map to a window of labelled events, and scores each event with the newest map.

    Attributes
    ----------
    window
        Number of newest labelled events of a stream to which a map is fitted, and with which events are compared.
    stride
        Number of labelled events between two fits. The first fit starts when the window is full.
    delay
        Delay D in events, at most `stride`. A map whose window ends at seq s scores events from seq s + D on. If the
        fit takes longer, scoring waits for it.
    age
        Age in events at which a labelled event leaves the window; 0 means never.
    held
        Share of a window that calibrates the threshold. The map is not fitted to these events, and they are not used as
        neighbours.
    learners
        Number m of learners of the map. The defaults of `learners`, `beta`, `ridge` and `iterations` are those of the
        GBMAP paper's out-of-distribution experiment.
    beta
        Sharpness β of the softplus function of each learner.
    ridge
        Ridge penalty λ on the weights of each learner.
    iterations
        Largest number of L-BFGS iterations with which each learner is fitted.
    neighbours
        Number k of nearest labelled events with which an event is compared.
    rate
        Share of the events of a stream that are flagged in the long run.
    categories
        Number of categories of a text feature that a map distinguishes: the most frequent ones in the window.
    classes
        Number of classes that a map distinguishes: the most frequent ones in the window.
    attribution
        Name, for each flagged event, the features to which the map is most sensitive.
    delta
        Significance level δ of ADWIN on the events that are beyond the threshold.
    test_interval
        Number of events between two tests of ADWIN.
    grace
        Number of events before ADWIN's first test, and before the next test after an alarm.
    anchor
        Number of events of a partition after which the detector records the whole state of one stream; the streams
        take turns. After a restart, it re-reads about this many events per stream, without publishing them.

    Raises
    ------
    SettingsError
        Settings contradict each other. The error lists all findings.
    """

    window: ChangesNovelty[Annotated[int, Meta(ge=10, le=100_000)]] = 1_000
    stride: ChangesNovelty[_Positive] = 2_000
    delay: ChangesNovelty[_Positive] = 2_000
    age: ChangesNovelty[_Natural] = 0
    held: ChangesNovelty[Annotated[float, Meta(gt=0, lt=1)]] = 0.25
    learners: ChangesNovelty[Annotated[int, Meta(ge=1, le=1_000)]] = 20
    beta: ChangesNovelty[Annotated[float, Meta(gt=0, le=1_000_000)]] = 5.0
    ridge: ChangesNovelty[Annotated[float, Meta(ge=0, le=1_000_000)]] = 1e-3
    iterations: ChangesNovelty[Annotated[int, Meta(ge=1, le=100_000)]] = 200
    neighbours: ChangesNovelty[_Positive] = 5
    rate: ChangesNovelty[Annotated[float, Meta(gt=0, lt=1)]] = 0.01
    categories: ChangesNovelty[Annotated[int, Meta(ge=1, le=1_000)]] = 20
    classes: ChangesNovelty[Annotated[int, Meta(ge=2, le=100)]] = 10
    attribution: ChangesNovelty[bool] = True
    delta: ChangesNovelty[Annotated[float, Meta(gt=0, lt=1)]] = 1e-5
    test_interval: ChangesNovelty[_Positive] = 32
    grace: ChangesNovelty[_Natural] = 500
    anchor: ChangesNothing[_Positive] = 2_000

    def __post_init__(self) -> None:
        findings: list[str] = []
        most, what = self.window, f"novelty.window = {self.window}"
        if 0 < self.age < self.window:
            most, what = self.age, f"the novelty.age = {self.age} that are young enough"
        calibrating, needed = int(self.held * most), least_held(self.rate)
        if self.delay > self.stride:
            findings.append(f"novelty.delay: expected at most novelty.stride ({self.stride}), got {self.delay}")
        if calibrating < needed:
            findings.append(
                f"novelty.held: expected at least {needed} held-out events for novelty.rate = {self.rate}, got "
                f"{calibrating} ({self.held} of {what}); raise novelty.held or novelty.rate"
            )
        if most - calibrating < self.neighbours:
            findings.append(
                f"novelty.neighbours: expected at most the {most - calibrating} events of a window that are not held "
                f"({what}), got {self.neighbours}"
            )
        if findings:
            raise SettingsError(findings)

    def map(self, seed: int) -> GbmapSettings:
        """Return the settings of a map, of which the fit chooses the loss and the stream."""
        return GbmapSettings(
            learners=self.learners, beta=self.beta, ridge=self.ridge, iterations=self.iterations, seed=seed
        )

    @property
    def detector(self) -> Parameters:
        """ADWIN's parameters under River's names, with River's defaults for the buckets and the shortest side."""
        return {
            "delta": self.delta,
            "clock": self.test_interval,
            "max_buckets": 5,
            "min_window_length": 5,
            "grace_period": self.grace,
        }
