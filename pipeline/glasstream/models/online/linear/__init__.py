"""River's `StandardScaler | LinearRegression` and `| LogisticRegression`, learned in compiled code, bit for bit.

One-vs-rest over the logistic pipeline learns in the same way: it is one *member* for each class, a pipeline of its own
that begins when its class appears. The other two have one member.

Arrays
------
`features` float64[members, slots, 5] holds what a member knows of each feature: the count, mean and variance of its
scaler, its weight, and whether the scaler has met the feature. Slots number the names in order of appearance.
`numbers` float64[members, 6] holds its intercept, its number of steps and the parameters of the optimizer. `order`
lists the members in the order of River's dict ``classifiers``.

Exactness
---------
- Terms are added in the order in which the event names its features, then comes the intercept, as in River.
- ``variance ** 0.5`` is libm's ``pow`` in CPython, which LLVM would replace by a square root. The exponent is therefore
  read from an array. ``math.exp`` is libm's in both.
- No result depends on `sum`, so these models also learn in compiled code on Python 3.12 and later.
- The order of the names in the dicts of `to_river` may differ from River's. No result depends on it.
"""
