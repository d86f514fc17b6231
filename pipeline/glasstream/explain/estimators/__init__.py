"""The methods for a model of your own, without Kafka."""
