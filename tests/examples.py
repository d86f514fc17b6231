"""How many examples Hypothesis tries: a test says how many are normal, the profile how many of them there are.

The profiles are in `tests/conftest.py`: `check` for the loop of an edit, `ci`, and `thorough` (`./ops/test
--hypothesis-profile thorough`).
"""

from hypothesis import settings

NORMAL = 100
FEWEST = 3


def examples(normal: int) -> settings:
    """Return the decorator of a test that tries `normal` examples in the profile `ci`."""
    return settings(max_examples=max(FEWEST, normal * settings.default.max_examples // NORMAL))
