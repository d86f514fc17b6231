"""`--broker local`: a real Apache Kafka of this machine, for one run or, with a data folder, beyond it.

The node is one KRaft process on free loopback ports, run by Java 17 or newer from jars that Maven fetches once into
the user's cache folder. Where Java or Maven is missing and a Docker engine answers, a container serves instead.
"""

from glasstream.app.brokers.local.start import Kafka, local_kafka, prepare

__all__ = ["Kafka", "local_kafka", "prepare"]
