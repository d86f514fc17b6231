"""Where the fields of a model's objects lie in the arena; see the package's docstring."""

import mmap
from typing import Any, Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

Array = NDArray[Any]

FIRST: Final = 8
"""The first word that an object may have; 0 stands for "none"."""

# --- Node --------------------------------------------------------------------------------------------------------
NODE: Final = 24
KIND, DEPTH, WEIGHTS, CLASSES, CLASS_ROOM, FEATURE, VALUE, LEFT, RIGHT, NEXT, CASE, BLOCK, SLOTS, SLOT_ROOM = range(14)
"""`CLASSES` is how many the node has seen; `WEIGHTS`, the block and its tables have room for `CLASS_ROOM`. `VALUE`, a
float, is the threshold of a numeric branch, or the category of a nominal one; `CASE`, a float, the category with which
a multiway branch leads here. `LEFT` and `RIGHT` are of a multiway branch the first and the last child, and `NEXT` is
the next child of the same branch.
"""
ACTIVE, MAJORITY_RIGHT, BAYES_RIGHT, LAST, SUBSET, SUBSET_SIZE, ALTERNATE, DETECTOR = range(14, 22)
"""`LAST`, a float, is the leaf's weight at its last attempt to split."""
ERROR_COUNT, ERROR_MEAN = range(22, 24)
FLOATS: Final = 22
"""In a forest of classifiers, number of classes of a node whose weights are floats. A split has given them to the node.
They come before the classes that it met later, whose weights are integers, as those of bagging are.
"""

DEEPEST: Final = 5_000
"""Levels of a tree; River's own recursion ends earlier."""

LEAF, NUMERIC, NOMINAL, MULTIWAY = range(4)

# --- Weights: pairs of a float and a class ------------------------------------------------------------------------
PAIR: Final = 2
CLASS: Final = 1

# --- Slot of a block: a header, then a row a class ----------------------------------------------------------------
HEADER: Final = 8
SLOT_FEATURE, SLOT_CLASSES, TABLE, CATEGORIES, CATEGORY_ROOM, SEARCH = range(6)
"""`SLOT_CLASSES` is how many classes the slot's splitter knows. `TABLE` is only of a nominal slot: its categories
(floats), then the weights of each category, a class after the other. `SEARCH` is only of a regressor: the root of the
search tree of a numeric feature.
"""

ROW: Final = 8
COUNT, MEAN, SQUARES, LEAST, MOST, CURVE, PEAK, ORDER = range(8)
"""`COUNT` is of a Gaussian its weight, and of a nominal slot the weight of all categories. `CURVE` is -2 times the
variance, or 0 where there is no density; `PEAK` is half the logarithm of the variance. `ORDER`, in row q, is the q-th
class that the slot's splitter came to know.
"""
KNOWN: Final = 1
"""Of a nominal slot: 1.0 if the splitter knows the class."""

FIRST_CATEGORIES: Final = 4
"""Categories for which a new table has room."""

# --- Target: what a node of a regressor has seen, at the address `WEIGHTS` -----------------------------------------
TARGET: Final = 11
SEEN, AVERAGE, DEVIATION, MEAN_LOSS, MODEL_LOSS, INTERCEPT, STEPS, ENTRIES, ENTRY_COUNT, ENTRY_ROOM = range(10)
ERROR_DEVIATION: Final = 10
"""A regressor's node has one class, of which `SEEN` is the weight, and room for none. `DEVIATION` is the sum of squared
deviations from the average. `ENTRIES` are the weights of the leaf's linear model: pairs of a float and a feature, in
the order of River's dict.
"""

# --- Slot of a regressor: a header only ------------------------------------------------------------------------------
CASES: Final = 4
"""Words of a category in a table: the category, and the count, mean and deviation of its targets."""
POINT: Final = 7
"""Words of a node of a search tree."""
POINT_VALUE, POINT_SEEN = range(2)
"""From `POINT_SEEN` on: count, mean and deviation of the targets at this value, and of those that went to the left."""
POINT_LEFT, POINT_RIGHT, POINT_ABOVE = range(4, 7)

# --- Detector: a header, then the number of buckets, their totals and their variances, a row after the other ----------
WIDTH, TOTAL, VARIANCE, TOTAL_WIDTH, TICK, ROWS, ROW_ROOM, DETECTED, DETECTIONS, BUCKETS, MOST_BUCKETS = range(11)
DETECTOR_HEADER: Final = 12
FEW_ROWS: Final = 12
MANY_ROWS: Final = 52
MOST_ROWS: Final = 50
"""Rows that may be used: a window of 2**50 events is longer than any stream."""
LARGEST_COUNT: Final = 2**62
"""Of ticks, detections and buckets."""

# --- Tree: a row of int64 -------------------------------------------------------------------------------------------
TREE: Final = 12
ROOT, EXISTS, ACTIVE_LEAVES, INACTIVE_LEAVES, LEARNED, WARNING, DRIFT, WARNED, DRIFTED, ALTERNATES, PRUNED, SWITCHED = (
    range(12)
)
"""`LEARNED` is the weight that the tree has learned; `WARNING` and `DRIFT` are the detectors of a forest's tree."""

# --- Scores: a row of float64 for each tree ---------------------------------------------------------------------------
CLASS_SCORES: Final = 2
"""Words that a forest of classifiers has for each tree."""
RIGHT_EVENTS, EVENTS = range(2)
TARGET_SCORES: Final = 5
SCORED, LOSS, NORM = range(3)
"""Of a regressor: events, and the mean of their squared errors. From `NORM` on: count, mean and deviation of the
errors, with which a forest scales the errors that its detectors get.
"""

# --- Control: int64 -------------------------------------------------------------------------------------------------
USED, BUDGET, MOST_CLASSES, MOST_SLOTS, MOST_CATEGORIES, HEIGHT, DEMAND, NOMINAL_FEATURES, MOST_ENTRIES = range(9)
"""`BUDGET` is how many words a copy may write; `DEMAND` how many free words the next event needs at most, set when a
kernel returns early, and after a copy.
"""
CONTROL: Final = 9

# --- Options: int64 ---------------------------------------------------------------------------------------------------
FAMILY, CRITERION, PREDICTION, MAX_DEPTH, CANDIDATES, BINARY_ONLY, PREPRUNE, BOOTSTRAP, MODELS, WEIGHTED = range(10)
"""`CANDIDATES` is how many thresholds are tried for a numeric feature."""
SUBSET_MOST, POOL_MOST, LABEL_ONE, LABEL_ZERO, REGRESSION, DIGITS, MEDIAN = range(10, 17)
"""`POOL_MOST` is the largest population of which `random.sample` makes a pool. `LABEL_ONE` and `LABEL_ZERO` are the
classes that equal 1 and 0, or -1: the Hellinger distance knows no other. `DIGITS` are the decimal places to which a
regressor rounds features, or -1. `MEDIAN` says whether a forest predicts the median of what its trees predict, not the
mean.
"""
OPTIONS: Final = 17

SILENT, ANSWERS, FINITE = range(3)
"""How a kernel answers an event: it learns only; it predicts the event, and then learns it if it has a class; the same,
but it does not learn an event with votes that are not finite.
"""
REFUSED: Final = -2
"""In the place of a predicted class: the votes are not finite, and the event has not been learned."""
ANSWERED: Final = 0
"""Outcome of an event of a regressor; others are `REFUSED` and `RAISED`."""
RAISED: Final = -3
"""Learning the event raised River's OverflowError."""
DIVIDED: Final = -4
"""Learning the event raised River's ZeroDivisionError, at a branch of an adaptive tree."""

TREE_FAMILY, ADAPTIVE_FAMILY, FOREST_FAMILY, TREE_REGRESSOR, ADAPTIVE_REGRESSOR, FOREST_REGRESSOR = range(6)
GINI, INFO_GAIN, HELLINGER = range(3)
MAJORITY, BAYES, BAYES_ADAPTIVE = range(3)
MEAN_LEAF, MODEL_LEAF, ADAPTIVE_LEAF = range(3)

# --- Numbers: float64 -------------------------------------------------------------------------------------------------
GRACE, TAU, LOG_DELTA, BRANCH_FRACTION, SHARE, BAYES_WEIGHT, TWO, HALF, HALF_LOG_TAU, ROOT_TWO, SWITCH_LOG = range(11)
SWITCH_WINDOW, POISSON_LIMIT, DECAY, LEAST_SAMPLES, RATE, INTERCEPT_START, INTERCEPT_RATE, CLIP = range(11, 19)
POWER_OF_TEN, SIGNIFICANCE, NUMBERS = range(19, 22)

# --- Parameters of detectors: float64[2, 5], of warnings and of drifts ------------------------------------------------
DELTA, CLOCK, BUCKETS_A_ROW, LEAST_WINDOW, DETECTOR_GRACE = range(5)

# --- Kinds of features ------------------------------------------------------------------------------------------------
IS_UNKNOWN, IS_NUMBER, IS_NOMINAL_NUMBER, IS_TEXT = range(-1, 3)
"""Unknown is a feature that a leaf may watch and of which no value is known; to kernels a number."""

# --- The best split of a leaf: float64 --------------------------------------------------------------------------------
MERIT, SECOND, SUGGESTIONS, BEST_KIND, BEST_SLOT, BEST_VALUE = range(6)
BEST_LEFT: Final = 6
"""Of a regressor: the count, mean and deviation of the targets of the left child."""
BEST: Final = 9

MOST_DEMAND: Final = 2**30
"""Largest demand of one event, in words: 8 GiB, of which memory holds only what is written."""


class Pool(NamedTuple):
    """Everything that a kernel reads and writes."""

    F: Array
    """The arena as float64."""
    I: Array
    """The arena as int64."""
    control: Array
    number: Array
    option: Array
    detector: Array
    kind: Array
    """int64[features]"""
    rank_start: Array
    """int64[features + 1]: where the ranks of a feature's categories begin in `rank`."""
    rank: Array
    """int64: the place of each text among the sorted texts of its feature."""
    by_name: Array
    """int64[features]: the features sorted by name."""
    by_label: Array
    """int64[classes]: the classes sorted by label."""
    label_rank: Array
    """int64[classes]: the place of each class in `by_label`."""
    tree: Array
    """int64[trees, TREE]: of a forest the trees that vote, then those in the background."""
    seen: Array
    """int8[trees, classes]: whether the tree has learned the class."""
    confusion: Array
    """float64[models, classes, classes + 1]: of a forest, events by true and predicted class; the last: none."""
    scores: Array
    """float64[trees, `CLASS_SCORES` or `TARGET_SCORES`]: how well each tree of a forest has predicted."""
    twister: Array
    """uint32[624]: the state of `random.Random`."""
    position: Array
    """int64[1]: its position in that state."""
    best: Array
    room: Array
    """float64[8, max(classes, models)]: room for calculations."""
    marks: Array
    """int64[8, max(classes, features)]: the same."""
    asked: Array
    """int64[trees, 4]: of each tree that votes the leaf of the event, and what the leaf and the tree predict."""
    path: Array
    """int64[3, levels]: room for a way through a tree."""
    sums: Array
    """float64[2, levels]: sums on this way, and what they have rounded away."""


def empty_arena(words: int) -> tuple[Array, Array]:
    """Return a zeroed arena of `words` words in both of its types."""
    arena = zeroed(words)
    return arena, arena.view(np.int64)


def zeroed(words: int) -> Array:
    """Return zeros, of which only the pages that are written take memory.

    A young model uses little of its arena. `np.zeros` does the same for memory that comes from the system, but it
    writes the zeros into memory that an earlier model has left.
    """
    if 8 * words < _MAPPED_BYTES:
        return np.zeros(words)
    return np.frombuffer(mmap.mmap(-1, 8 * words, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS), np.float64)


_MAPPED_BYTES: Final = 64 * 1024
"""Size from which on arrays are mapped."""
