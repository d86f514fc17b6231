"""Base class of the experiments, and the request that a user makes of one."""

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, NamedTuple

from glasstream_lab.papers.comparison import Row
from glasstream_lab.papers.tasks import Json

if TYPE_CHECKING:
    from matplotlib.figure import Figure

Results = list[tuple[Json, Json]]
"""Tasks, each with its result."""

PAPERS = {
    "iPFI": "Fumagalli, Muschalik, Hüllermeier, Hammer 2023, Incremental permutation feature importance (iPFI)",
    "iSAGE": "Muschalik, Fumagalli, Hammer, Hüllermeier 2023, iSAGE: an incremental version of SAGE",
    "iPDP": "Muschalik, Fumagalli, Jagtani, Hammer, Hüllermeier 2023, iPDP: partial dependence in dynamic modelling",
    "GBMAP": "Patron, Oikarinen, Puolamäki 2024, Gradient boosting mapping (GBMAP)",
}
"""Authors, year and subject of each paper."""


class Choice(NamedTuple):
    """Option of an experiment.

    Attributes
    ----------
    values
        Allowed values; the first one is the default.
    help
        Help text of the option.
    """

    values: tuple[str, ...]
    help: str


@dataclass(frozen=True, slots=True)
class Request:
    """Size of a run and its options, as a user requests them.

    Attributes
    ----------
    folder
        Folder with a file ``NAME.csv.gz`` for each data set.
    repetitions
        Number of repetitions of each number, with other random seeds.
    quick
        Whether to run a small part of the experiment, which takes at most a minute.
    choices
        Chosen value of each option in `Experiment.choices`.
    """

    folder: Path | None
    repetitions: int
    quick: bool = False
    choices: Mapping[str, str] = field(default_factory=dict)


class Experiment(ABC):
    """One experiment of a paper. Instances have no state, so that every process can make one."""

    name: ClassVar[str]
    """Name on the command line."""
    paper: ClassVar[str]
    """Key of `PAPERS`."""
    shows: ClassVar[str]
    """Tables or figures of the paper, such as "Table 1"."""
    summary: ClassVar[str]
    """One sentence on the comparison that the experiment makes."""
    minutes: ClassVar[float]
    """Rough CPU time of the whole experiment."""
    data: ClassVar[tuple[str, ...]] = ()
    """Data sets whose files the experiment reads."""
    quick_data: ClassVar[tuple[str, ...]] = ()
    """Data sets that the quick form reads."""
    repetitions: ClassVar[int] = 10
    quick_repetitions: ClassVar[int] = 2
    quick_omits: ClassVar[str]
    """Parts of the experiment that the quick form leaves out."""
    settings: ClassVar[tuple[str, ...]]
    """Settings that the paper leaves open, and how this experiment chooses them; one sentence each."""
    choices: ClassVar[Mapping[str, Choice]] = {}
    """Options of this experiment alone, by name."""

    @abstractmethod
    def tasks(self, request: Request) -> list[Json]:
        """Return the tasks of a run. A task holds everything that its result depends on, except for the files."""

    @abstractmethod
    def work(self, folder: Path | None, task: Json) -> Json:
        """Return the result of a task."""

    @abstractmethod
    def rows(self, results: Results) -> Sequence[Row]:
        """Return the rows of the table."""

    def figure(self, results: Results) -> "Figure | None":
        """Return the figure, or None if the experiment has none."""
        return None


@dataclass(frozen=True, slots=True)
class Work:
    """The work of an experiment as a function of the task, which can be sent to other processes."""

    experiment: Experiment
    folder: Path | None

    def __call__(self, task: Json) -> Json:
        return self.experiment.work(self.folder, task)


def values(results: Results, key: str, **of: Any) -> list[float]:
    """Return a number of each result whose task has these settings, in the order of the tasks."""
    return [
        float(result[key]) for task, result in results if all(task.get(name) == value for name, value in of.items())
    ]
