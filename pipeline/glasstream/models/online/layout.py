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
KIND: Final = 0
DEPTH: Final = 1
WEIGHTS: Final = 2
CLASSES: Final = 3
"""Classes that the node has seen."""
CLASS_ROOM: Final = 4
"""Classes for which `WEIGHTS`, the block and its tables have room."""
FEATURE: Final = 5
VALUE: Final = 6
"""A float: the threshold of a numeric branch, the category of a nominal one."""
LEFT: Final = 7
"""The left child; of a multiway branch the first."""
RIGHT: Final = 8
"""The right child; of a multiway branch the last."""
NEXT: Final = 9
"""The next child of the same multiway branch."""
CASE: Final = 10
"""A float: the category with which a multiway branch leads here."""
BLOCK: Final = 11
SLOTS: Final = 12
SLOT_ROOM: Final = 13
ACTIVE: Final = 14
MAJORITY_RIGHT: Final = 15
BAYES_RIGHT: Final = 16
LAST: Final = 17
"""A float: the leaf's weight at its last attempt to split."""
SUBSET: Final = 18
SUBSET_SIZE: Final = 19
ALTERNATE: Final = 20
DETECTOR: Final = 21
ERROR_COUNT: Final = 22
FLOATS: Final = 22
"""Number of classes of a node whose weights are floats, in a forest of classifiers. A split has given them to the node.
They come before the classes that it met later, whose weights are integers, as those of bagging are.
"""
ERROR_MEAN: Final = 23

DEEPEST: Final = 5_000
"""Levels of a tree; River's own recursion ends earlier."""

LEAF: Final = 0
NUMERIC: Final = 1
NOMINAL: Final = 2
MULTIWAY: Final = 3

# --- Weights: pairs of a float and a class ------------------------------------------------------------------------
PAIR: Final = 2
CLASS: Final = 1

# --- Slot of a block: a header, then a row a class ----------------------------------------------------------------
HEADER: Final = 8
SLOT_FEATURE: Final = 0
SLOT_CLASSES: Final = 1
"""Classes that the slot's splitter knows."""
TABLE: Final = 2
"""Only of a nominal slot: its categories (floats), then the weights of each category, a class after the other."""
CATEGORIES: Final = 3
CATEGORY_ROOM: Final = 4

ROW: Final = 8
COUNT: Final = 0
"""Of a Gaussian its weight; of a nominal slot the weight of all categories."""
MEAN: Final = 1
SQUARES: Final = 2
LEAST: Final = 3
MOST: Final = 4
CURVE: Final = 5
"""-2 times the variance, or 0 where there is no density."""
PEAK: Final = 6
"""Half the logarithm of the variance."""
KNOWN: Final = 1
"""Of a nominal slot: 1.0 if the splitter knows the class."""
ORDER: Final = 7
"""In row q: the q-th class that the slot's splitter came to know."""

FIRST_CATEGORIES: Final = 4
"""Categories for which a new table has room."""

# --- Target: what a node of a regressor has seen, at the address `WEIGHTS` -----------------------------------------
TARGET: Final = 12
SEEN: Final = 0
"""The weight that the node has seen. A regressor's node has one class, of which this is the weight."""
AVERAGE: Final = 2
DEVIATION: Final = 3
"""The sum of squared deviations from the average."""
MEAN_LOSS: Final = 4
MODEL_LOSS: Final = 5
INTERCEPT: Final = 6
STEPS: Final = 7
ENTRIES: Final = 8
"""The weights of the leaf's linear model: pairs of a float and a feature, in the order of River's dict."""
ENTRY_COUNT: Final = 9
ENTRY_ROOM: Final = 10
ERROR_DEVIATION: Final = 11

# --- Slot of a regressor: a header only; SEARCH is the root of the search tree of a numeric feature -----------------
SEARCH: Final = 5
CASES: Final = 4
"""Words of a category in a table: the category, and the count, mean and deviation of its targets."""
POINT: Final = 7
"""Words of a node of a search tree."""
POINT_VALUE: Final = 0
POINT_SEEN: Final = 1
"""The count, mean and deviation of the targets at this value, and of those that went to the left."""
POINT_LEFT: Final = 4
POINT_RIGHT: Final = 5
POINT_ABOVE: Final = 6

# --- Detector: a header, then the number of buckets, their totals and their variances, a row after the other ----------
WIDTH: Final = 0
TOTAL: Final = 1
VARIANCE: Final = 2
TOTAL_WIDTH: Final = 3
TICK: Final = 4
ROWS: Final = 5
ROW_ROOM: Final = 6
DETECTED: Final = 7
DETECTIONS: Final = 8
BUCKETS: Final = 9
MOST_BUCKETS: Final = 10
DETECTOR_HEADER: Final = 12
FEW_ROWS: Final = 12
MANY_ROWS: Final = 52
MOST_ROWS: Final = 50
"""Rows that may be used: a window of 2**50 events is longer than any stream."""
LARGEST_COUNT: Final = 2**62
"""Of ticks, detections and buckets."""

# --- Tree: a row of int64 -------------------------------------------------------------------------------------------
ROOT: Final = 0
EXISTS: Final = 1
ACTIVE_LEAVES: Final = 2
INACTIVE_LEAVES: Final = 3
LEARNED: Final = 4
"""The weight that the tree has learned."""
WARNING: Final = 5
"""Of a forest's tree: its detector of warnings."""
DRIFT: Final = 6
WARNED: Final = 7
DRIFTED: Final = 8
ALTERNATES: Final = 9
PRUNED: Final = 10
SWITCHED: Final = 11
TREE: Final = 12

# --- Scores: a row of float64 for each tree ---------------------------------------------------------------------------
RIGHT_EVENTS: Final = 0
EVENTS: Final = 1
CLASS_SCORES: Final = 2
"""Words that a forest of classifiers has for each tree."""

SCORED: Final = 0
"""Of a regressor: events, and the mean of their squared errors."""
LOSS: Final = 1
NORM: Final = 2
"""Count, mean and deviation of the errors: with them a forest scales the errors that its detectors get."""
TARGET_SCORES: Final = 5

# --- Control: int64 -------------------------------------------------------------------------------------------------
USED: Final = 0
BUDGET: Final = 1
"""Words that a copy may write."""
MOST_CLASSES: Final = 2
MOST_SLOTS: Final = 3
MOST_CATEGORIES: Final = 4
HEIGHT: Final = 5
DEMAND: Final = 6
"""Free words that the next event needs at most: set when a kernel returns early, and after a copy."""
NOMINAL_FEATURES: Final = 7
MOST_ENTRIES: Final = 8
CONTROL: Final = 9

# --- Options: int64 ---------------------------------------------------------------------------------------------------
FAMILY: Final = 0
CRITERION: Final = 1
PREDICTION: Final = 2
MAX_DEPTH: Final = 3
CANDIDATES: Final = 4
"""Thresholds that are tried for a numeric feature."""
BINARY_ONLY: Final = 5
PREPRUNE: Final = 6
BOOTSTRAP: Final = 7
MODELS: Final = 8
WEIGHTED: Final = 9
SUBSET_MOST: Final = 10
POOL_MOST: Final = 11
"""The largest population of which `random.sample` makes a pool."""
LABEL_ONE: Final = 12
LABEL_ZERO: Final = 13
"""The classes that equal 1 and 0, or -1: the Hellinger distance knows no other."""
REGRESSION: Final = 14
DIGITS: Final = 15
"""Decimal places to which a regressor rounds features, or -1."""
MEDIAN: Final = 16
"""Whether a forest predicts the median of what its trees predict, not the mean."""
OPTIONS: Final = 17

SILENT: Final = 0
"""How a kernel answers an event: it learns only."""
ANSWERS: Final = 1
"""It predicts the event, and then learns it if it has a class."""
FINITE: Final = 2
"""The same, but it does not learn an event with votes that are not finite."""
REFUSED: Final = -2
"""In the place of a predicted class: the votes are not finite, and the event has not been learned."""
ANSWERED: Final = 0
"""Outcome of an event of a regressor; others are `REFUSED` and `RAISED`."""
RAISED: Final = -3
"""Learning the event raised River's OverflowError."""
DIVIDED: Final = -4
"""Learning the event raised River's ZeroDivisionError, at a branch of an adaptive tree."""

TREE_FAMILY: Final = 0
ADAPTIVE_FAMILY: Final = 1
FOREST_FAMILY: Final = 2
TREE_REGRESSOR: Final = 3
ADAPTIVE_REGRESSOR: Final = 4
FOREST_REGRESSOR: Final = 5

GINI: Final = 0
INFO_GAIN: Final = 1
HELLINGER: Final = 2

MAJORITY: Final = 0
BAYES: Final = 1
BAYES_ADAPTIVE: Final = 2

MEAN_LEAF: Final = 0
MODEL_LEAF: Final = 1
ADAPTIVE_LEAF: Final = 2

# --- Numbers: float64 -------------------------------------------------------------------------------------------------
GRACE: Final = 0
TAU: Final = 1
LOG_DELTA: Final = 2
BRANCH_FRACTION: Final = 3
SHARE: Final = 4
BAYES_WEIGHT: Final = 5
TWO: Final = 6
HALF: Final = 7
HALF_LOG_TAU: Final = 8
ROOT_TWO: Final = 9
SWITCH_LOG: Final = 10
SWITCH_WINDOW: Final = 11
POISSON_LIMIT: Final = 12
DECAY: Final = 13
LEAST_SAMPLES: Final = 14
RATE: Final = 15
INTERCEPT_START: Final = 16
INTERCEPT_RATE: Final = 17
CLIP: Final = 18
POWER_OF_TEN: Final = 19
SIGNIFICANCE: Final = 20
NUMBERS: Final = 21

# --- Parameters of detectors: float64[2, 5], of warnings and of drifts ------------------------------------------------
DELTA: Final = 0
CLOCK: Final = 1
BUCKETS_A_ROW: Final = 2
LEAST_WINDOW: Final = 3
DETECTOR_GRACE: Final = 4

# --- Kinds of features ------------------------------------------------------------------------------------------------
IS_UNKNOWN: Final = -1
"""A feature that a leaf may watch and of which no value is known; to kernels a number."""
IS_NUMBER: Final = 0
IS_NOMINAL_NUMBER: Final = 1
IS_TEXT: Final = 2

# --- The best split of a leaf: float64 --------------------------------------------------------------------------------
MERIT: Final = 0
SECOND: Final = 1
SUGGESTIONS: Final = 2
BEST_KIND: Final = 3
BEST_SLOT: Final = 4
BEST_VALUE: Final = 5
BEST_LEFT: Final = 6
"""Of a regressor: the count, mean and deviation of the targets of the left child, then of the right one."""
BEST_RIGHT: Final = 9
BEST: Final = 12

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
