"""What a fit of GBMAP must know, and the settings of the paper's experiments (paper 003)."""

from collections.abc import Mapping
from dataclasses import dataclass
from math import isfinite
from typing import Final, Literal

from glasstream.errors import SettingsError
from glasstream.gbmap.rows import is_number, is_whole

Loss = Literal["quadratic", "logistic"]
Unit = Literal["softplus", "relu", "linear"]

LOSSES: Final[tuple[Loss, ...]] = ("quadratic", "logistic")
UNITS: Final[tuple[Unit, ...]] = ("softplus", "relu", "linear")


FEW_ROWS: Final = 4_096
"""Up to so many a second start takes little time and helps: with synth-cos of 1,000 rows, 20 learners and the quadratic
loss the mean loss over ten data sets is 0.777 with it, 0.801 without; of 10,000 rows 1.269 with it, 1.264 without."""


@dataclass(frozen=True, slots=True, kw_only=True)
class GbmapSettings:
    """Settings of one fit.

    Raises
    ------
    SettingsError
        A value is out of its range; all findings at once.
    """

    learners: int = 20
    """m, the weak learners that are fitted at most; the dimensions of the embedding."""
    loss: Loss = "quadratic"
    """``"quadratic"`` (y - f)² for real targets; ``"logistic"`` log(1 + exp(-yf)) for targets -1 and +1 (003, 3.1)."""
    unit: Unit = "softplus"
    """g of a learner a + b g(w·x): ``"softplus"`` log(1 + exp(βz))/β; ``"relu"`` max(0, z), its limit for large β;
    ``"linear"`` z, with which the map is a ridge or a logistic regression (003, Lemma 1)."""
    beta: float = 5.0
    """β of the softplus, above 0; the other units have none."""
    ridge: float = 1e-3
    """λ: λ Σ w²/p is added to the mean loss (003, 3.2); p counts the constant."""
    iterations: int = 200
    """Of L-BFGS at most, in each of its runs."""
    tolerance: float = 1e-4
    """L-BFGS ends where no component of the gradient is larger, or one step lowers the loss by less than a
    thousandth of this, relatively. The paper names no rule."""
    intercept: bool = True
    """Whether w·x has a constant term of its own; it is penalised like every weight."""
    starts: int = 1
    """Starts of L-BFGS for each learner and sign, of which the best end is kept; the time is in proportion. The first
    is a function of the rows, the others are random. 0: two with up to `FEW_ROWS` rows, else one."""
    held_out: float = 0.0
    """Share of the rows that is not fitted to but judges after each learner; 0: none, all learners are kept."""
    patience: int = 5
    """Learners in a row that may fail to lower the held-out loss before the fit ends at the best number."""
    single: bool = False
    """Whether the rows are held as float32 while fitting: half the memory. Arithmetic is float64 in any case."""
    seed: int = 0
    stream: str = ""
    """What the fit is of: seed and stream are the key of all its draws."""

    def __post_init__(self) -> None:
        whole = {"learners": 1, "iterations": 1, "starts": 0, "patience": 1}
        findings = [
            f"gbmap: expected {name} as a whole number of {least} or more, got {value!r}"
            for name, least in whole.items()
            if not is_whole(value := getattr(self, name)) or value < least
        ]
        for name in whole:
            if is_whole(value := getattr(self, name)):
                object.__setattr__(self, name, int(value))  # numpy's whole numbers, of a search, are taken too
        if self.loss not in LOSSES:
            findings.append(f"gbmap: expected a loss of {', '.join(LOSSES)}, got {self.loss!r}")
        if self.unit not in UNITS:
            findings.append(f"gbmap: expected a unit of {', '.join(UNITS)}, got {self.unit!r}")
        if not (is_number(self.beta) and isfinite(self.beta) and self.beta > 0):
            findings.append(f"gbmap: expected beta above 0 and finite, got {self.beta!r}; unit 'relu' is its limit")
        if not (is_number(self.ridge) and isfinite(self.ridge) and self.ridge >= 0):
            findings.append(f"gbmap: expected ridge from 0 on and finite, got {self.ridge!r}")
        if not (is_number(self.tolerance) and isfinite(self.tolerance) and self.tolerance > 0):
            findings.append(f"gbmap: expected tolerance above 0 and finite, got {self.tolerance!r}")
        if not (is_number(self.held_out) and 0 <= self.held_out < 1):
            findings.append(f"gbmap: expected held_out from 0 to below 1, got {self.held_out!r}")
        if findings:
            raise SettingsError(findings)


PAPER_DRIFT: Final = GbmapSettings(learners=20, beta=5.0, ridge=1e-3, iterations=200)
"""Of the out-of-distribution experiments (003, 4.5)."""
PAPER_SCALING: Final = GbmapSettings(
    learners=2, loss="logistic", beta=1.0, ridge=1e-3, iterations=100, starts=0, single=True
)
"""Of the run times (003, 4.2); rows in single precision, as in the authors' code."""
PAPER_FEATURES: Final = GbmapSettings(learners=32, ridge=1e-3, iterations=400)
"""Of the embeddings as features (003, 4.4), which searched β and used several m."""

PRESETS: Final[Mapping[str, GbmapSettings]] = {
    "paper-drift": PAPER_DRIFT,
    "paper-scaling": PAPER_SCALING,
    "paper-features": PAPER_FEATURES,
}
