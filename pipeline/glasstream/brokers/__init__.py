"""Brokers: the embedded one, a real Kafka of this machine, and any Kafka that is given.

`choose.open_broker` is the way in; `embedded` and `local` each say what theirs can and cannot do.
"""
