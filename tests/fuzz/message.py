"""Messages of `events`: whatever their bytes are, every stage takes them, and every output can encode what follows."""

import random

from glasstream.app.configuration import load
from tests.fuzz.mutations import mutate_bytes
from tests.fuzz.target import Target
from tests.support.every_output import extreme_messages, through_every_output

_SETTINGS = (
    "topics.events=1", "explain.reservoir=3", "publish.every=5", "snapshot.doubling=4", "snapshot.cadence=10",
    "explain.methods=ipfi,ipdp,novelty", "drift.grace=5", "labels.estimate=5", "novelty.window=10000",
    "limits.waiting_bytes=4096", "limits.streams=2", "groups.by=m,a", "groups.every=3", "groups.least=2",
)  # fmt: skip
_TASKS = ("classification", "regression")


class Messages(Target):
    """Events and labels with extreme values, and such messages with damaged bytes, through all stages in memory."""

    name = "message"
    refused = ()
    share = 0.5

    def __init__(self) -> None:
        self._settings = [
            load(assignments=[*_SETTINGS, f"model.name={model}", *task])
            for model in ("linear", "tree")
            for task in ((), *((f"model.task={one}",) for one in _TASKS))
        ]
        for task in _TASKS:
            for settings in self._settings:
                through_every_output(settings, extreme_messages(random.Random(1), 20, task, tame=0.95))

    def run(self, random: random.Random) -> str:
        """Send some messages, of which one is damaged in half of all cases."""
        messages = extreme_messages(
            random, random.randint(1, 8), random.choice(_TASKS), tame=random.choice((0.7, 0.95))
        )
        place = random.randrange(len(messages))
        key, value = messages[place]
        if value and random.random() < 0.5:
            messages[place] = key, mutate_bytes(random, value)
        counts = through_every_output(random.choice(self._settings), messages)
        return "ok" if counts["predictions"] else "dead letters"
