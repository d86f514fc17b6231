"""What each stage does with a partition, as pure functions of its messages, and the settings of all stages.

`learner`, `aggregator` and `novelty` take messages and give records. `reference` is the whole pipeline as a plain loop,
with which every run can be compared. This package imports no Kafka, clock, file or environment: what it returns is a
function of the log, the settings and the seed.
"""
