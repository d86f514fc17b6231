"""What is fuzzed, and what may come of a mutation."""

import random
from abc import ABC, abstractmethod
from typing import ClassVar


class Target(ABC):
    """Data that the product reads, and the code that reads it.

    The constructor builds the unharmed data once, before processes are forked. It also calls every kernel once, so that
    a forked child compiles nothing.

    Attributes
    ----------
    name
        Name on the command line.
    refused
        Exceptions that mean: refused, as documented. Any other exception is a finding, and so are a signal, a mutation
        that takes longer than `seconds`, and one that allocates more than `mib`.
    share
        Weight of the target when mutations are divided between targets; cheap ones have more.
    seconds
        Longest time for one mutation on a busy machine.
    mib
        Most memory that one mutation may allocate, in MiB.
    """

    name: ClassVar[str]
    refused: ClassVar[tuple[type[BaseException], ...]]
    share: ClassVar[float] = 1.0
    seconds: ClassVar[int] = 60
    mib: ClassVar[int] = 2_048

    @abstractmethod
    def run(self, random: random.Random) -> str:
        """Make one mutation, let the product read it and work with it, and return a word for the outcome.

        Raises
        ------
        AssertionError
            The product accepted the mutation, but an answer is wrong.
        """

    def ended(self, random: random.Random) -> str | None:
        """Return a word for a mutation that has ended its process, if that is documented; None if it is a finding.

        It is called in the process of the harness, with the same randomness as `run`.
        """
        return None
