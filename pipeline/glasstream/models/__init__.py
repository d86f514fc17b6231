"""Everything that predicts or learns.

`predictors` says what a predictor is and has the kernels of compiled ones. `online` learns trees, forests and linear
models in compiled code. `river` lists the models that a stream may have, compiles them, and turns them into those of
`online` and back: no other part imports River. `onnx` reads trained models, `codec` writes predictors as bytes, and
`stream_model` is the model of a stream.

A model knows features and labels. It does not know explanations, settings of stages, or Kafka. Explainers need only
`predictors` and `codec`, which import no River.
"""
