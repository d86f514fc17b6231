"""The section `drift` of the settings, and the registry of detectors.

`ops/docs/deviations.md` lists where this differs from the papers.
"""

from collections.abc import Mapping
from typing import Annotated, Final, Literal

from msgspec import Meta, Struct

from glasstream.base.changes import ChangesExplanations, ChangesNothing
from glasstream.base.errors import SettingsError
from glasstream.detect.drift.adwin import Adwin
from glasstream.detect.drift.detector import Detectors, Parameters
from glasstream.detect.drift.kswin import Kswin
from glasstream.detect.drift.page_hinkley import PageHinkley
from glasstream_topics.drift import SIGNALS

DETECTORS: Final[Mapping[str, type[Detectors]]] = {one.name: one for one in (Adwin, PageHinkley, Kswin)}

_SIGNALS = Meta(
    pattern=rf"^(none|({'|'.join(SIGNALS)})(,({'|'.join(SIGNALS)}))*)$",
    description=f"one or more of {', '.join(SIGNALS)}, separated by commas, or none",
)
_DETECTOR = Meta(pattern=rf"^({'|'.join(DETECTORS)})$", description=f"one of {', '.join(DETECTORS)}")

_Positive = Annotated[int, Meta(ge=1)]


class DriftSettings(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Which changes of the explanations raise an alarm, and which changes of a stream are an incident.

    Attributes
    ----------
    preset
        ``paper`` applies the settings of the iPDP paper's drift experiment (section 4.1) wherever you set no value,
        in this section and in others; `glasstream.app.presets` lists them.
    watch
        Signals to watch, separated by commas: ``importance`` (one series per feature and method), ``pd_importance`` and
        ``curve_shape`` (one per feature; iPDP only), ``loss`` (one per stream). ``none`` watches nothing.
    values
        ``rows`` gives the detectors the contributions of single rows. ``smoothed`` gives them the published values,
        which depend on each other, so that no rate of false alarms is guaranteed.
    pd
        Form of the watched PD importance: ``usual``, the number that `effects` publishes, or ``squares``, the sum of
        squared deviations.
    min_change
        Smallest change of a curve that raises an alarm, as a share of the summed importance of all curves of the
        stream. Smaller changes occur all the time while a model learns. For the method `attributions`, it is the same
        share of the summed contributions of all features: they also change when the background rows are drawn again.
    detector
        Test that looks for a change in each watched series.
    bonferroni
        Divide `delta` (for KSWIN: `alpha`) equally among all watched series of a stream: the Bonferroni correction.
    budget
        Upper bound of the expected number of false incidents in 100,000 rows of a stream that does not change, for all
        series together. 0 turns incidents off.
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

    Raises
    ------
    SettingsError
        Settings of the detector contradict each other.
    """

    preset: ChangesNothing[Literal["paper"] | None] = None
    watch: ChangesExplanations[Annotated[str, _SIGNALS]] = ",".join(SIGNALS)
    values: ChangesExplanations[Literal["rows", "smoothed"]] = "rows"
    pd: ChangesExplanations[Literal["usual", "squares"]] = "usual"
    min_change: ChangesExplanations[Annotated[float, Meta(ge=0)]] = 0.1
    detector: ChangesExplanations[Annotated[str, _DETECTOR]] = Adwin.name
    bonferroni: ChangesExplanations[bool] = True
    budget: ChangesExplanations[Annotated[float, Meta(ge=0)]] = 0.5
    grace: ChangesExplanations[Annotated[int, Meta(ge=0)]] = 500
    delta: ChangesExplanations[Annotated[float, Meta(gt=0, lt=1)]] = 1e-5
    test_interval: ChangesExplanations[_Positive] = 32
    buckets: ChangesExplanations[Annotated[int, Meta(ge=2, le=1_000)]] = 5
    shortest: ChangesExplanations[_Positive] = 5
    threshold: ChangesExplanations[Annotated[float, Meta(gt=0)]] = 50.0
    tolerance: ChangesExplanations[Annotated[float, Meta(ge=0)]] = 0.005
    forgetting_factor: ChangesExplanations[Annotated[float, Meta(gt=0, le=1)]] = 0.9999
    alpha: ChangesExplanations[Annotated[float, Meta(gt=0, lt=1)]] = 0.005
    window: ChangesExplanations[Annotated[int, Meta(ge=4, le=100_000)]] = 100
    stat_size: ChangesExplanations[Annotated[int, Meta(ge=2, le=50_000)]] = 30

    def __post_init__(self) -> None:
        if self.detector == Kswin.name and 2 * self.stat_size > self.window:
            raise SettingsError(
                [f"drift.stat_size: expected at most half of drift.window ({self.window}), got {self.stat_size}"]
            )

    @property
    def signals(self) -> tuple[str, ...]:
        """The watched signals, in the order of `glasstream_topics.drift.SIGNALS`."""
        asked = self.watch.split(",")
        return tuple(signal for signal in SIGNALS if signal in asked)

    @property
    def finds_incidents(self) -> bool:
        """Whether streams are watched for incidents."""
        return self.budget > 0.0

    def parameters(self, seed: int, series: int) -> Parameters:
        """Return the parameters of each detector under River's names, for a number of watched series.

        >>> DriftSettings(delta=0.5, grace=100).parameters(seed=1, series=4)
        {'delta': 0.125, 'clock': 32, 'max_buckets': 5, 'min_window_length': 5, 'grace_period': 100}
        """
        detector = DETECTORS[self.detector]
        values: Parameters = {
            name: seed if setting == "seed" else getattr(self, setting) for name, setting in detector.settings.items()
        }
        if self.bonferroni and detector.level is not None and series:
            values[detector.level] = float(values[detector.level]) / series
        return values
