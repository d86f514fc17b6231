"""River's models: the only part of the application that knows their insides.

`catalogue` lists the models that a stream may have, and `implicit` is a linear regression of our own.
`compile.compile_model` compiles a model to the predictors of `glasstream.models.predictors.kernels`; other modules know
one family of models each, or one part of the trees: branches, votes and means of leaves. `live` turns River models into
those of `glasstream.models.online`, and back: `trees` and `tree_targets` know trees and forests of classifiers and of
regressors, `linear_pipelines` linear models.
"""
