"""Read what Glasstream publishes from a program of your own: committed records only, as typed objects.

The package needs only confluent-kafka. It imports neither Faust nor the models.

>>> from glasstream.consume import importance
>>> with importance("kafka:9092", streams="loans") as records:  # doctest: +SKIP
...     for record in records:
...         print(record.row, record.features["age"].value)
"""

from glasstream.consume.public import Options, drift, effects, importance, novelty
from glasstream.consume.reader import Origin, Reader

__all__ = ["Options", "Origin", "Reader", "drift", "effects", "importance", "novelty"]
