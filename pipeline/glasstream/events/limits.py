"""Limits on what is accepted from `events`, the part of the section `limits` that readers of `events` share."""

from typing import Annotated

from msgspec import Meta, Struct

from glasstream.base.changes import ChangesBoth

_Positive = Annotated[int, Meta(ge=1)]


class IngestLimits(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Limits on messages and on what the pipeline remembers of one stream.

    Attributes
    ----------
    message_bytes
        Largest message on `events` that is read. Larger messages become dead letters.
    streams
        Largest number of streams per partition of `events`. A further stream gets the place of one that has been idle
        for 10 × `streams` messages and has fewer events than `explain.start`. If there is none, its messages become
        dead letters.
    stream_bytes
        Longest stream name (the message key), in bytes.
    features
        Largest number of features per stream. All names together may take 256 KiB.
    categories
        Largest number of categories per feature.
    text
        Longest name or category, in characters.
    classes
        Largest number of classes per stream. All class names together may take 128 KiB. A label beyond this limit
        becomes a dead letter; most often the target is an id or free text.
    label_bytes
        Longest class name, in UTF-8 bytes.
    waiting_bytes
        Largest size of the events of one stream that wait for their labels: 8 bytes for each number, 16 for each
        class, and about 300 for each event. Beyond it, the oldest ones stop waiting. See `labels.window`.
    """

    message_bytes: ChangesBoth[Annotated[int, Meta(ge=1, le=64 * 1024 * 1024)]] = 1024 * 1024
    streams: ChangesBoth[_Positive] = 1_000
    stream_bytes: ChangesBoth[Annotated[int, Meta(ge=1, le=1024)]] = 249
    features: ChangesBoth[_Positive] = 2_000
    categories: ChangesBoth[_Positive] = 10_000
    text: ChangesBoth[_Positive] = 1_024
    classes: ChangesBoth[Annotated[int, Meta(ge=2, le=10_000)]] = 256
    label_bytes: ChangesBoth[Annotated[int, Meta(ge=1, le=1_024)]] = 256
    waiting_bytes: ChangesBoth[Annotated[int, Meta(ge=4_096)]] = 64 * 1024 * 1024
