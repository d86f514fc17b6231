"""The contract of predictors, and what every implementation of it uses.

A predictor turns rows of numbers into probabilities and labels, or into values. Compiled predictors consist of names
and arrays. This package imports neither River nor numba.
"""
