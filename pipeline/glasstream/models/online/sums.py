"""Sums of floats as `sum` of this Python makes them.

Up to Python 3.11, `sum` adds in order. From 3.12 on, it also keeps what each addition rounds away, and adds that at the
end (Neumaier 1974). A kernel adds term by term:

    added, rest = 0.0, 0.0
    for term in terms:
        added, rest = add(added, rest, term)
    added = ended(added, rest)

Python 3.12 and 3.13 compensate floats only: an integer among them is added as it is (`SKIPS_INTEGERS`). The first float
after integers is added as it is by every version.
"""

import math
from typing import Final

from glasstream.base.jit import inlined

COMPENSATED: Final = sum([1e16, 1.0, -1e16]) != 0.0
"""Whether `sum` of this Python compensates."""
SKIPS_INTEGERS: Final = COMPENSATED and sum([1e16, 1, -1e16]) == 0.0
"""Whether it does so for floats only."""

if COMPENSATED:

    @inlined
    def add(added: float, rest: float, term: float) -> tuple[float, float]:
        """Return the sum after one more term, and what all additions have rounded away."""
        whole = added + term
        if abs(added) >= abs(term):
            rest += (added - whole) + term
        else:
            rest += (term - whole) + added
        return whole, rest

    @inlined
    def ended(added: float, rest: float) -> float:
        """Return the sum of all terms."""
        if rest != 0.0 and abs(rest) < math.inf:
            return added + rest
        return added

else:

    @inlined
    def add(added: float, rest: float, term: float) -> tuple[float, float]:
        """Return the sum after one more term."""
        return added + term, rest

    @inlined
    def ended(added: float, rest: float) -> float:
        """Return the sum of all terms."""
        return added
