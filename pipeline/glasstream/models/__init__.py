"""Everything that predicts or learns.

`predictors` says what a predictor is and has the kernels of compiled ones. `river` compiles River's models and lists
those that a stream may have. `online` learns trees, forests and linear models in compiled code. `onnx` reads trained
models, `codec` writes predictors as bytes, and `stream_model` is the model of a stream.

A model knows features and labels. It does not know explanations, settings of stages, or Kafka. Explainers need only
`predictors` and `codec`, which import no River.
"""
