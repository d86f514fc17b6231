"""The section `novelty` of the settings."""

from typing import Annotated

from msgspec import Meta, Struct

from glasstream.drift.detector import Parameters
from glasstream.errors import SettingsError
from glasstream.gbmap.indicator import least_held
from glasstream.gbmap.settings import GbmapSettings
from glasstream.novelty.settings import MapSettings

_Positive = Annotated[int, Meta(ge=1)]
_Natural = Annotated[int, Meta(ge=0)]


class NoveltyOptions(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """How novelty is told. A map is fitted to a window of labelled events; every event is scored with the newest.

    Attributes
    ----------
    window
        Labelled events that a map is fitted to and held against: the newest of the stream.
    stride
        Labelled events between two windows that are fitted to; the first is fitted to when it is full.
    delay
        D, at most `stride`: the map of the window whose newest event has seq s serves from seq s + D on. The fit has so
        many events of time; if it is not done by then, scoring waits.
    age
        Events after which a labelled one is too old for a window; 0: none is.
    held
        Share of a window that is neither fitted to nor asked as a neighbour, but calibrates the threshold.
    learners, beta, ridge, iterations
        Of the map: m, β of the softplus, λ, and iterations of L-BFGS; the paper's out-of-distribution experiment.
    neighbours
        k.
    rate
        Share of in-distribution events that may be flagged.
    categories
        Categories of a text feature that a map tells apart: the most frequent of the window.
    classes
        Classes of which a map tells: the most frequent of the window.
    attribution
        Flagged events say in which features the map is steep.
    delta, test_interval, grace
        ADWIN on the flags: δ; it tests after every `test_interval` events; events before it first tests, and again
        after each alarm.
    anchor
        Events of a partition between two records of a stream's whole state, in turn: about so many, times the streams,
        are read again, silently, after a restart. Changes no number.
    """

    window: Annotated[int, Meta(ge=10, le=100_000)] = 1_000
    stride: _Positive = 2_000
    delay: _Positive = 2_000
    age: _Natural = 0
    held: Annotated[float, Meta(gt=0, lt=1)] = 0.25
    learners: Annotated[int, Meta(ge=1, le=1_000)] = 20
    beta: Annotated[float, Meta(gt=0, le=1_000_000)] = 5.0
    ridge: Annotated[float, Meta(ge=0, le=1_000_000)] = 1e-3
    iterations: Annotated[int, Meta(ge=1, le=100_000)] = 200
    neighbours: _Positive = 5
    rate: Annotated[float, Meta(gt=0, lt=1)] = 0.01
    categories: Annotated[int, Meta(ge=1, le=1_000)] = 20
    classes: Annotated[int, Meta(ge=2, le=100)] = 10
    attribution: bool = True
    delta: Annotated[float, Meta(gt=0, lt=1)] = 1e-5
    test_interval: _Positive = 32
    grace: _Natural = 500
    anchor: _Positive = 2_000

    def fit(self, seed: int) -> MapSettings:
        """What a fit must know.

        Raises
        ------
        SettingsError
            Settings contradict each other; all findings at once.
        """
        findings: list[str] = []
        most, what = self.window, f"novelty.window = {self.window}"
        if 0 < self.age < self.window:
            most, what = self.age, f"the novelty.age = {self.age} that are young enough"
        calibrating, needed = int(self.held * most), least_held(self.rate)
        if self.delay > self.stride:
            findings.append(f"novelty.delay: expected at most novelty.stride ({self.stride}), got {self.delay}")
        if calibrating < needed:
            findings.append(
                f"novelty.held: expected {needed} events of a window or more for novelty.rate = {self.rate}, got "
                f"{calibrating} ({self.held} of {what}); hold more, or allow a higher rate"
            )
        if most - calibrating < self.neighbours:
            findings.append(
                f"novelty.neighbours: expected at most the {most - calibrating} events of a window that are not held "
                f"({what}), got {self.neighbours}"
            )
        if findings:
            raise SettingsError(findings)
        return MapSettings(
            map=GbmapSettings(
                learners=self.learners, beta=self.beta, ridge=self.ridge, iterations=self.iterations, seed=seed
            ),
            seed=seed,
            held=self.held,
            neighbours=self.neighbours,
            rate=self.rate,
            categories=self.categories,
            classes=self.classes,
        )

    @property
    def detector(self) -> Parameters:
        """ADWIN's parameters, in River's names; buckets and the shortest side are River's own."""
        return {
            "delta": self.delta,
            "clock": self.test_interval,
            "max_buckets": 5,
            "min_window_length": 5,
            "grace_period": self.grace,
        }
