"""`state show` names the streams with which the aggregator stands still."""

from glasstream.app.configuration import load
from glasstream.app.operate.state import _Partition
from glasstream_topics import checkpoints, progress_aggregator, progress_learner, progress_novelty
from glasstream_topics.progress_learner import LearnerPartitionProgress, LearnerStreamProgress

TOPICS = (progress_learner.TOPIC, progress_aggregator.TOPIC, progress_novelty.TOPIC, checkpoints.TOPIC)


def test_it_is_as_the_learner_last_said() -> None:
    settings, said = load(), "stream 's': row 150 is not aggregated, although rows up to 399 were learned 20 events ago"
    records = [
        LearnerPartitionProgress(epoch=0, first_offset=0, offset=9, used=0, fingerprint={}),
        *(LearnerStreamProgress(stream=name, epoch=0, seqs=400, rows=400, first_offset=0, after=0, stalled=stalled)
          for name, stalled in (("s", said), ("t", ""))),
    ]  # fmt: skip
    values = {topic.name: {} for topic in TOPICS} | {
        progress_learner.TOPIC.name: dict(progress_learner.encode(record) for record in records)
    }
    notes: list[str] = []
    found = {one.stream: one.stalled for one in _Partition(settings, 0, values, notes).streams()}
    assert found == {"s": said, "t": ""} and not notes


def test_a_record_of_a_release_that_did_not_say_it_is_read() -> None:
    record = LearnerStreamProgress(stream="s", epoch=0, seqs=1, rows=1, first_offset=0, after=0)
    key, value = progress_learner.encode(record)
    assert b"stalled" not in value and progress_learner.decode(key, value) == record
    said = LearnerStreamProgress(stream="s", epoch=0, seqs=1, rows=1, first_offset=0, after=0, stalled="it stands")
    assert progress_learner.decode(*progress_learner.encode(said)) == said
