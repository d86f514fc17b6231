"""Brokers: the embedded one, a local Kafka on this machine, and any Kafka at a given address.

Use `choose.open_broker` to open one. The modules `embedded` and `local` list the limits of their brokers.
"""
