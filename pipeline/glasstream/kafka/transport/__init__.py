"""Kafka for stages: consumers, transactions, lanes of partitions, and their saved progress."""
