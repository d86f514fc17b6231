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
    """Which changes of the explanations raise an alarm.

    Attributes
    ----------
    preset
        ``paper`` takes the settings of the iPDP paper's experiment (001, section 4.1) for everything that is not set
        otherwise, in this section and in others; see `glasstream.presets`.
    watch
        Signals to watch, separated by commas: ``importance`` (one series per feature and method), ``pd_importance`` and
        ``curve_shape`` (one per feature; iPDP), ``loss`` (iSAGE). ``none`` watches nothing.
    values
        ``rows`` gives the detectors the contributions of single rows. ``smoothed`` gives them the published values,
        which depend on each other, so that no rate of false alarms is guaranteed.
    pd
        Form of PD importance: ``usual`` as in `effects`, or ``squares``, the sum of squared deviations.
    min_change
        Smallest change of a curve that raises an alarm, as a share of the summed importance of all curves of the
        stream. Smaller changes occur at every step that a model learns.
    detector
        ``adwin``, ``page_hinkley`` or ``kswin``.
    bonferroni
        Divide `delta` (for KSWIN: `alpha`) equally among all watched series of a stream: the Bonferroni correction.
    grace
        ADWIN, Page-Hinkley: number of values before a detector's first test, and before the next test after an alarm.
    delta
        ADWIN: significance level δ.
    test_interval
        ADWIN: number of values between two tests.
    buckets
        ADWIN: number of buckets of each size.
    shortest
        ADWIN: smallest number of values on either side of a change.
    threshold
        Page-Hinkley: value of the test statistic that raises an alarm.
    tolerance
        Page-Hinkley: size of deviations from the mean that are ignored.
    forgetting_factor
        Page-Hinkley: factor by which the sums decay with each value.
    alpha
        KSWIN: significance level of the test.
    window
        KSWIN: number of values in the window.
    stat_size
        KSWIN: number of newest values that are compared with the rest of the window.
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
        """The detector's parameters without the seed, under River's names."""
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
        """Return the settings of the drift detectors, or None if nothing is watched.

        Parameters
        ----------
        seed
            Random seed for detectors that sample.
        alpha
            Smoothing factor α, used if smoothed values are watched.

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
