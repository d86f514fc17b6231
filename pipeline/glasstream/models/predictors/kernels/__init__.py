"""Compiled predictors: arrays, and the machine code that evaluates rows with them.

An explainer needs nothing else of a compiled model, so this package imports numba but not River. The modules for trees
also evaluate rows with replaced features, without walking each tree again.
"""
