"""What is watched, and by which detector."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from glasstream.drift.adwin import Adwin
from glasstream.drift.detector import Detectors, Parameters
from glasstream.drift.kswin import Kswin
from glasstream.drift.page_hinkley import PageHinkley

DETECTORS: Final[Mapping[str, type[Detectors]]] = {one.name: one for one in (Adwin, PageHinkley, Kswin)}

_LEVELS: Final = {Adwin.name: "delta", Kswin.name: "alpha"}
"""The parameter that bounds the false alarms of a detector."""


@dataclass(frozen=True, slots=True, kw_only=True)
class DriftSettings:
    """What is watched, and how. See `glasstream.settings` for meaning and defaults."""

    signals: tuple[str, ...]
    detector: str
    parameters: Parameters
    """Of the detector, in River's names."""
    bonferroni: bool
    """The parameter that bounds false alarms is for all watched series together, each gets an equal part."""
    smoothed: bool
    """Watch smoothed numbers, not those of single rows."""
    alpha: float
    """α of that smoothing."""
    squares: bool
    """PD importance is the sum of squared deviations, not the usual form."""
    min_change: float
    """Least change of a curve that is told, as a share of the importance of all curves together."""

    def parameters_of(self, series: int) -> Parameters:
        """The parameters of each detector when so many series are watched.

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
