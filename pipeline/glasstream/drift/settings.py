"""Settings of the drift detectors."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from glasstream.drift.adwin import Adwin
from glasstream.drift.detector import Detectors, Parameters
from glasstream.drift.kswin import Kswin
from glasstream.drift.page_hinkley import PageHinkley

DETECTORS: Final[Mapping[str, type[Detectors]]] = {one.name: one for one in (Adwin, PageHinkley, Kswin)}

_LEVELS: Final = {Adwin.name: "delta", Kswin.name: "alpha"}
"""Parameter of each detector that bounds its false alarms."""


@dataclass(frozen=True, slots=True, kw_only=True)
class DriftSettings:
    """Signals to watch and detector to use. See `glasstream.settings` for meaning and defaults."""

    signals: tuple[str, ...]
    detector: str
    parameters: Parameters
    """Parameters of the detector, under River's names."""
    bonferroni: bool
    """Whether all watched series share the parameter that bounds false alarms in equal parts."""
    smoothed: bool
    """Whether detectors watch smoothed values instead of the values of single rows."""
    alpha: float
    """Smoothing factor α of these values."""
    squares: bool
    """Whether PD importance is the sum of squared deviations instead of the usual form."""
    min_change: float
    """Smallest change of a curve that raises an alarm, as a share of the summed importance of all curves."""

    def parameters_of(self, series: int) -> Parameters:
        """Return the parameters of each detector for a number of watched series.

        >>> DriftSettings(
        ...     signals=("loss",), detector="adwin", parameters={"delta": 0.5}, bonferroni=True, smoothed=False,
        ...     alpha=0.1, squares=False, min_change=0.0,
        ... ).parameters_of(4)
        {'delta': 0.125}
        """
        level = _LEVELS.get(self.detector)
        if not self.bonferroni or level is None or series == 0:
            return self.parameters
        return {**self.parameters, level: float(self.parameters[level]) / series}
