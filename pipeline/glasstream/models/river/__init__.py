"""Compile River models to the predictors of `glasstream.models.predictors.kernels`.

The entry is `compile.compile_model`. Other modules know one family of models each, or one part of the trees: branches,
votes and means of leaves.
"""
