"""The section `drift` of the settings."""

from typing import Annotated, Literal

from msgspec import Meta, Struct

from glasstream.drift.detector import Parameters
from glasstream.drift.settings import DriftSettings
from glasstream.errors import SettingsError
from glasstream_topics.drift import SIGNALS

_SIGNALS = rf"^(none|({'|'.join(SIGNALS)})(,({'|'.join(SIGNALS)}))*)$"

_Positive = Annotated[int, Meta(ge=1)]


class DriftOptions(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Which alarms are raised when explanations change.

    Attributes
    ----------
    preset
        ``paper``: the settings of the iPDP paper's experiment (001, section 4.1) for whatever is not set otherwise,
        here and in other sections; see `glasstream.presets`.
    watch
        Of ``importance`` (a series for each feature and method), ``pd_importance`` and ``curve_shape`` (for each
        feature; iPDP), and ``loss`` (iSAGE), separated by commas; or ``none``.
    values
        ``rows``: detectors see what single rows say; ``smoothed``: what is published, smoothed, whose numbers depend on
        each other, so that no rate of false alarms is promised.
    pd
        Form of PD importance: ``usual``, that of `effects`, or ``squares``, the sum of squared deviations.
    min_change
        A change of a curve is told if it is at least this share of the importance of all curves of the stream together;
        smaller ones come with every step that a model learns.
    detector
        ``adwin``, ``page_hinkley`` or ``kswin``.
    bonferroni
        Divide `delta` (of KSWIN: `alpha`) equally among all watched series of a stream: the Bonferroni correction.
    grace
        ADWIN, Page-Hinkley: numbers before a detector first tests, and again after each of its alarms.
    delta, test_interval, buckets, shortest
        ADWIN: δ; it tests after every `test_interval` numbers; buckets of a size; shortest side of a change.
    threshold, tolerance, forgetting_factor
        Page-Hinkley: the alarm is raised at `threshold`; deviations up to `tolerance` are none; how the sums fade.
    alpha, window, stat_size
        KSWIN: level of the test; numbers it holds; how many of these are the newer side.
    """

    preset: Literal["paper"] | None = None
    watch: Annotated[str, Meta(pattern=_SIGNALS)] = ",".join(SIGNALS)
    values: Literal["rows", "smoothed"] = "rows"
    pd: Literal["usual", "squares"] = "usual"
    min_change: Annotated[float, Meta(ge=0)] = 0.1
    detector: Literal["adwin", "page_hinkley", "kswin"] = "adwin"
    bonferroni: bool = True
    grace: Annotated[int, Meta(ge=0)] = 500
    delta: Annotated[float, Meta(gt=0, lt=1)] = 1e-5
    test_interval: _Positive = 32
    buckets: Annotated[int, Meta(ge=2, le=1_000)] = 5
    shortest: _Positive = 5
    threshold: Annotated[float, Meta(gt=0)] = 50.0
    tolerance: Annotated[float, Meta(ge=0)] = 0.005
    forgetting_factor: Annotated[float, Meta(gt=0, le=1)] = 0.9999
    alpha: Annotated[float, Meta(gt=0, lt=1)] = 0.005
    window: Annotated[int, Meta(ge=4, le=100_000)] = 100
    stat_size: Annotated[int, Meta(ge=2, le=50_000)] = 30

    @property
    def parameters(self) -> Parameters:
        """The detector's parameters but for a seed, in River's names."""
        if self.detector == "page_hinkley":
            return {
                "min_instances": self.grace,
                "delta": self.tolerance,
                "threshold": self.threshold,
                "alpha": self.forgetting_factor,
            }
        if self.detector == "kswin":
            return {"alpha": self.alpha, "window_size": self.window, "stat_size": self.stat_size}
        return {
            "delta": self.delta,
            "clock": self.test_interval,
            "max_buckets": self.buckets,
            "min_window_length": self.shortest,
            "grace_period": self.grace,
        }

    def watched(self, seed: int, alpha: float) -> DriftSettings | None:
        """What detectors must know; None: nothing is watched.

        Parameters
        ----------
        seed
            Of detectors that draw.
        alpha
            α of the smoothing, if smoothed numbers are watched.

        Raises
        ------
        SettingsError
            Settings of the detector contradict each other.
        """
        if self.watch == "none":
            return None
        if self.detector == "kswin" and 2 * self.stat_size > self.window:
            raise SettingsError(
                [f"drift.stat_size: expected at most half of drift.window ({self.window}), got {self.stat_size}"]
            )
        asked = self.watch.split(",")
        return DriftSettings(
            signals=tuple(signal for signal in SIGNALS if signal in asked),
            detector=self.detector,
            parameters={**self.parameters, **({"seed": seed} if self.detector == "kswin" else {})},
            bonferroni=self.bonferroni,
            smoothed=self.values == "smoothed",
            alpha=alpha,
            squares=self.pd == "squares",
            min_change=self.min_change,
        )
