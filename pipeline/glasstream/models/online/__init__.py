"""Models of River, learned in compiled code over flat arrays, bit for bit.

`families` names the families. The subpackage `linear` learns linear models. The other modules, which the rest of this
text describes, learn Hoeffding trees and forests. Nothing here imports River.

`glasstream.models.river.live.take` turns a River model into a `LiveModel` or a `LiveRegressor`. From then on a block of
events is predicted and learned in one call, event by event, 50 to 77 times faster than in River (elec2,
`tests/benchmarks/learning.py`). Every prediction, split, statistic, detector and draw equals River's (``==``).
`glasstream.models.river.live.to_river` returns the River model as of now, and `to_bytes` a checkpoint that executes
nothing when it is read.

Families
--------
`HoeffdingTreeClassifier`, `HoeffdingAdaptiveTreeClassifier` and `ARFClassifier`, with numeric and nominal features, and
`HoeffdingTreeRegressor`, `HoeffdingAdaptiveTreeRegressor` and `ARFRegressor`, whose leaves may be linear models of
numeric features.
`parameters` lists the supported values of every parameter. A model with any other value stays with River, and
`NotCompilable` says why.

Memory
------
All nodes, statistics and detectors of a model live in one array of 8-byte words, the *arena*. Kernels see it twice: as
`F` (float64) and as `I` (int64). An object is a run of words; its address is the place of its first word, and 0 means
"none". `layout` lists the fields of each object:

=========  ==========================================================================================
node       a leaf or a branch; a leaf that splits becomes the branch in place, so its address stays valid
weights    what a node has seen: pairs of weight and class, in the order of River's dict ``stats``
block      what a leaf watches: a slot a feature, in the order of River's dict ``splitters``; in each slot
           one row of eight words a class (count, mean, sum of squares, minimum, maximum of a Gaussian)
table      the categories of a nominal slot, and their weight in each class
subset     the features that a leaf of a forest may watch
detector   an ADWIN: its counters and rows of buckets
target     of a regressor, in place of weights: statistics of the targets, and a leaf's linear model
point      a node of the binary search tree with which a regressor's leaf watches a numeric feature
=========  ==========================================================================================

A leaf numbers its classes by itself, in order of appearance, so memory follows the classes that it has seen and not
the classes of the stream. An object that needs more room is written again, larger. Nothing is freed: words that are no
longer reachable stay until the arena is full.

Growth
------
Before each event a kernel compares the free words with an upper bound of what one event can take (`arena.demand`). If
there are too few, the kernel returns the number of events that are done. The caller then copies what is reachable into
a larger arena (`copying.copy_trees`) and enters the kernel again. An arena is at least twice as large as what is
reachable, so copying costs a constant per allocated word, and memory stays proportional to the model.

`arena.take` compares once more: words beyond the end of the arena are a `ModelError`, and never written. An event whose
upper bound is larger than any memory (`layout.MOST_DEMAND`) is refused, and the model stays as it is.

Checkpoints
-----------
The same copy writes checkpoints and reads them. It visits the objects in a fixed order and drops spare room, so the
bytes depend on the model's state alone. It checks every address, count and index before it uses it, and it never writes
more words than the source has: damaged or forged bytes raise `FrameError`.

Exactness
---------
- The order of every sum is River's: classes of a leaf in the order of its dict, features in the order of ``splitters``.
- ``x ** 2`` and ``x ** 0.5`` are libm's ``pow`` in CPython, which LLVM would replace by a product and a square root.
  Exponents are therefore read from an array.
- From Python 3.12 on, ``sum`` compensates what it rounds away; the kernels sum as it does
  (`glasstream.models.online.sums`). Python 3.12 and 3.13 add integers among floats as they are. The leaves of a forest
  of classifiers hold both, so each node keeps how many of its weights are floats.
- Weights of events are whole numbers, so sums of the weights of categories do not depend on their order.
- Where two categories of a nominal feature are equally good binary splits, the one that the leaf saw first wins. River
  takes the first of a set, which for texts depends on PYTHONHASHSEED.
- Forests of regressors add the predictions of their trees in numpy's order, which is known for up to 128 trees.
- ``round`` is calculated from the exact product with a power of ten, for up to seven digits.
- River's limit on memory (`max_size`) counts the bytes of Python objects and cannot be reproduced. It is not applied;
  models with a limit below the default stay with River.
- The adaptive tree answers in the order of its ``classes``, so they must be ordered (`ClassesInOrder`), not a set.
"""
