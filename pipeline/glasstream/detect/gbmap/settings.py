"""Settings of a GBMAP fit, and the settings of the paper's experiments (paper 003)."""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from math import ceil, isfinite
from typing import Final, Literal

from glasstream.base.errors import SettingsError
from glasstream.detect.gbmap.rows import is_number, is_whole

Loss = Literal["quadratic", "logistic"]
Unit = Literal["softplus", "relu", "linear"]
Start = Literal["rows", "normal"]

LOSSES: Final[tuple[Loss, ...]] = ("quadratic", "logistic")
UNITS: Final[tuple[Unit, ...]] = ("softplus", "relu", "linear")
STARTS: Final[tuple[Start, ...]] = ("rows", "normal")


FEW_ROWS: Final = 4_096
"""Number of rows up to which a second start is worth its time. With synth-cos of 1,000 rows, 20 learners and the
quadratic loss, the mean loss over ten data sets is 0.777 with it and 0.801 without. With 10,000 rows it is 1.269 with
it and 1.264 without.
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class GbmapSettings:
    """Settings of one fit.

    Raises
    ------
    SettingsError
        A value is out of its range; the message lists all such values.
    """

    learners: int = 20
    """Largest number of weak learners, m, which is the dimension of the embedding."""
    loss: Loss = "quadratic"
    """Loss: ``"quadratic"`` (y - f)² for real targets; ``"logistic"`` log(1 + exp(-yf)) for targets -1 and +1 (003,
    3.1).
    """
    unit: Unit = "softplus"
    """Unit g of a learner a + b g(w·x): ``"softplus"`` log(1 + exp(βz))/β; ``"relu"`` max(0, z), its limit for large β;
    ``"linear"`` z, with which the map is a ridge or a logistic regression (003, Lemma 1).
    """
    beta: float = 5.0
    """β of the softplus, above 0; the other units ignore it."""
    ridge: float = 1e-3
    """λ of the penalty λ Σ w²/p on the mean loss (003, 3.2); p counts the constant."""
    iterations: int = 200
    """Largest number of iterations of each L-BFGS run."""
    tolerance: float = 1e-4
    """Tolerance: L-BFGS ends when no component of the gradient exceeds it, or when a step lowers the loss relatively by
    less than a thousandth of it. The paper names no rule.
    """
    intercept: bool = True
    """Whether w·x has a constant term; it is penalised like every weight."""
    starts: int = 1
    """Number of L-BFGS starts for each learner and sign, of which the best result is kept; the time is proportional to
    it. The first start is a function of the rows, the others are random. 0 selects two starts for up to `FEW_ROWS`
    rows, else one.
    """
    start: Start = "rows"
    """Where L-BFGS starts: ``"rows"`` in the span of the rows, which fits best. ``"normal"`` draws every parameter from
    N(0, 1) and keeps every learner, as the authors' code does: in directions in which the rows hardly vary, weights
    remain, with which the function goes astray after a drift.
    """
    held_out: float = 0.0
    """Share of held-out rows, on which the map is evaluated after each learner; with 0 all learners are kept."""
    patience: int = 5
    """Number of successive learners without a lower held-out loss after which the fit ends and keeps the best number.
    """
    single: bool = False
    """Whether to hold the rows as float32 during the fit, in half the memory. Arithmetic is float64 in any case."""
    seed: int = 0
    stream: str = ""
    """Seed and stream of the fit, which are the key of all its draws."""

    def __post_init__(self) -> None:
        whole = {"learners": 1, "iterations": 1, "starts": 0, "patience": 1}
        findings = [
            f"gbmap: expected {name} as a whole number of {least} or more, got {value!r}"
            for name, least in whole.items()
            if not is_whole(value := getattr(self, name)) or value < least
        ]
        for name in whole:
            if is_whole(value := getattr(self, name)):
                object.__setattr__(self, name, int(value))  # parameter searches pass numpy's whole numbers
        if self.loss not in LOSSES:
            findings.append(f"gbmap: expected a loss of {', '.join(LOSSES)}, got {self.loss!r}")
        if self.unit not in UNITS:
            findings.append(f"gbmap: expected a unit of {', '.join(UNITS)}, got {self.unit!r}")
        if self.start not in STARTS:
            findings.append(f"gbmap: expected a start of {', '.join(STARTS)}, got {self.start!r}")
        if not (is_number(self.beta) and isfinite(self.beta) and self.beta > 0):
            findings.append(f"gbmap: expected beta > 0 and finite, got {self.beta!r}; unit 'relu' is its limit")
        if not (is_number(self.ridge) and isfinite(self.ridge) and self.ridge >= 0):
            findings.append(f"gbmap: expected ridge >= 0 and finite, got {self.ridge!r}")
        if not (is_number(self.tolerance) and isfinite(self.tolerance) and self.tolerance > 0):
            findings.append(f"gbmap: expected tolerance > 0 and finite, got {self.tolerance!r}")
        if not (is_number(self.held_out) and 0 <= self.held_out < 1):
            findings.append(f"gbmap: expected held_out >= 0 and < 1, got {self.held_out!r}")
        if findings:
            raise SettingsError(findings)


PAPER_DRIFT: Final = GbmapSettings(learners=20, beta=5.0, ridge=1e-3, iterations=200)
"""Settings of the out-of-distribution experiments (003, 4.5)."""
SENSITIVE: Final = replace(PAPER_DRIFT, start="normal", tolerance=1e-3)
"""The same with the start and the end of the authors' code: a map that goes astray where its rows hardly vary."""
PAPER_SCALING: Final = GbmapSettings(
    learners=2, loss="logistic", beta=1.0, ridge=1e-3, iterations=100, starts=0, single=True
)
"""Settings of the run time experiments (003, 4.2); rows in single precision, as in the authors' code."""
PAPER_FEATURES: Final = GbmapSettings(learners=32, ridge=1e-3, iterations=400)
"""Settings of the experiments with embeddings as features (003, 4.4), which searched β and used several m."""

PRESETS: Final[Mapping[str, GbmapSettings]] = {
    "paper-drift": PAPER_DRIFT,
    "paper-scaling": PAPER_SCALING,
    "paper-features": PAPER_FEATURES,
}


def least_held(rate: float) -> int:
    """Return the number of held-out rows from which `glasstream.detect.gbmap.indicator.calibrate` finds a threshold.

    >>> least_held(0.01), least_held(0.1)
    (99, 9)
    """
    return ceil(1 / rate - 1 - 1e-9)
