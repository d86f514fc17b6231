"""The shell around `flow`: transactions, takeover of partitions, the stages as Faust applications, and their health.

`transport` knows Kafka but no model. `stages` connects it with `flow`. Nothing here changes a published number.
"""
