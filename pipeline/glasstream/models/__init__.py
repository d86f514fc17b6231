"""Models at one version of their learning, as predictors: River models, compiled to arrays where that is possible.

`contract` states what a predictor is; `kernels` evaluates compiled ones; `compiler` makes them from River models;
`codec` writes and reads them; `live` holds the River models that learn.
"""
