"""The methods beside a model of your own, without Kafka."""
