"""Rounds of reading a Kafka topic: each reads what has come since the one before into files of JSON lines."""

import os
import time
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final, NamedTuple

from xxhash import xxh3_128_hexdigest

from beam_joins.errors import InputError, Unavailable
from beam_joins.pipelines.base.input_error import BEGIN_ANEW
from beam_joins.pipelines.changelogs.round_files import LinesFile, RoundFiles
from beam_joins.pipelines.changelogs.source_reads import ReadPiece, Timed
from beam_joins.pipelines.formats.envelopes.tombstones import JsonEvents, Tombstones
from beam_joins.pipelines.systems.kafka.topics import Topics, identity_of, kafka, partitions_of
from beam_joins.transforms.connect.runs import StateFolder

_TOMBSTONE: Final = b"null"
_SILENT_SECONDS: Final = 60.0


class TopicRound(NamedTuple):
    """The result of a round: the pattern of its files, the number of records, and the ``offsets`` at which the next
    round begins, by partition. ``last`` are the last records before these: their offsets, and hashes of all that they are;
    ``deletes`` are those that :class:`~beam_joins.pipelines.formats.envelopes.tombstones.Tombstones` keeps.
    """

    pattern: str
    records: int
    offsets: dict[str, int]
    last: dict[str, tuple[int, str]]
    deletes: dict[str, str]


def read_topic(
    topic: str,
    config: Mapping[str, Any],
    offsets: Mapping[str, int],
    folder: str,
    most_records: int | None = None,
    last: Mapping[str, tuple[int, str]] | None = None,
    deletes: Mapping[str, str] | None = None,
) -> TopicRound:
    """Read the values from these offsets up to the ends that the partitions have now into files below
    ``folder``; of a partition without an offset from its first record on. ``most_records``: of a partition
    about so many at most, for a look. ``last`` and ``deletes`` are those of the round before.

    Raises InputError if no broker answers, there is no such topic, records that were not read are gone, or another
    record is in the place of the last one that was read.
    """
    files, records, ends = RoundFiles(folder, LinesFile, ".jsonl"), 0, dict(offsets)
    lines = _Lines(dict(last or {}), dict(deletes or {}))
    source = Topics(config, lines, "earliest", follow=False)
    try:
        for element in partitions_of(topic, config):
            _, partition = element
            begin, end = source.range(element)
            assert end is not None
            place, count = offsets.get(str(partition), begin), 0
            if place > end:
                raise InputError(
                    f"partition {partition} of the topic {topic} ends at {end}, and runs have read up to {place}: the topic was made "
                    f"anew: {BEGIN_ANEW}"
                )
            if str(partition) in lines.last:
                _require_last(source, element, *lines.last[str(partition)])
            for piece in _pieces(source, element, place, end):
                for line in piece.elements:
                    files.to(str(partition)).write(line.value)
                count += piece.rows
                ends[str(partition)] = piece.after
                if most_records is not None and count >= most_records:
                    break
            records += count
    finally:
        source.close()
    return TopicRound(files.pattern(), records, ends, lines.last, lines.deletes)


def read_topic_in_run(
    topic: str, config: Mapping[str, Any], state: StateFolder, name: str = "", *, from_beginning: bool = False
) -> TopicRound:
    """The new records since the last run with this state, which remembers the offsets by ``name``, by default that of the topic;
    they count when the run does. ``from_beginning``: all records, whatever the state remembers.

    Raises InputError.
    """
    name = f"topic {name or topic}"
    # names of labels have slashes
    folder = os.path.join(state.scratch, "topics", xxh3_128_hexdigest(name.encode()))
    before, identity = {} if from_beginning else state.inputs.get(name, {}), identity_of(topic, config)
    if "" not in (identity, before.get("id", "")) and identity != before["id"]:
        raise InputError(f"the topic {topic} was made anew since the last run (id {identity}, was {before['id']}): {BEGIN_ANEW}")
    last = {partition: (offset, content) for partition, (offset, content) in before.get("last", {}).items()}
    read = read_topic(topic, config, before.get("offsets", {}), folder, None, last, before.get("deletes"))
    state.has_arrivals |= read.records > 0
    state.inputs[name] = {"offsets": read.offsets, "id": identity, "last": read.last, "deletes": read.deletes}
    return read


def _require_last(source: Topics, element: tuple[str, int], offset: int, content: str) -> None:
    """Raise InputError if another record is at the offset of the last one that was read. One that is not there any more says
    nothing: topics forget records, and compact them.
    """
    found, place, until = _Contents(), offset, time.monotonic() + _SILENT_SECONDS
    lines, source.records = source.records, found
    try:
        while place <= offset and time.monotonic() < until:
            for piece in source.pieces(element, place, offset + 1):
                place = piece.after
    except kafka().KafkaException:
        return  # what cannot be read at all is said where it is read
    finally:
        source.records = lines
    topic, partition = element
    if found.at.get(offset, content) != content:
        raise InputError(
            f"the topic {topic} has another record at the offset {offset} of partition {partition} than the last run has read, as "
            f"after a restore of the broker's files: {BEGIN_ANEW}"
        )


def _pieces(source: Topics, element: tuple[str, int], place: int, end: int) -> Iterator[ReadPiece]:
    heard = time.monotonic()
    try:
        while place < end:
            for piece in source.pieces(element, place, end):
                place, heard = piece.after, time.monotonic()
                yield piece
            if time.monotonic() - heard > _SILENT_SECONDS:
                raise Unavailable(f"partition {element[1]} of the topic {element[0]} has given no record for {_SILENT_SECONDS:.0f} s")
    except kafka().KafkaException as error:
        topic, partition = element
        if error.args and error.args[0].code() in (kafka().KafkaError.OFFSET_OUT_OF_RANGE, kafka().KafkaError._AUTO_OFFSET_RESET):
            raise InputError(
                f"the topic {topic} has lost records of partition {partition} that no run has read: {BEGIN_ANEW}, and let"
                " the topic keep its records for longer"
            ) from None
        # of the configuration nothing is wrong, as the topic has said where it ends
        raise Unavailable(f"the topic {topic} cannot be read: {error.args[0].str() if error.args else error}") from None


class _Contents:
    """The content of records by their offsets."""

    def __init__(self) -> None:
        self.at = dict[int, str]()

    def piece(self, after: int, messages: Sequence[Any]) -> ReadPiece:
        """No elements."""
        self.at.update((message.offset(), _content(message)) for message in messages)
        return ReadPiece(after, [], None, 0)


def _content(message: Any) -> str:
    """A hash of a record: its time, key and value."""
    return xxh3_128_hexdigest(repr((message.timestamp(), message.key(), message.value())).encode())


class _Lines:
    """Values as lines; ``last`` are the last records by partition, ``deletes`` those that tombstones after them would be."""

    def __init__(self, last: dict[str, tuple[int, str]], deletes: dict[str, str]) -> None:
        self.last, self.deletes = last, deletes
        self._tombstones = Tombstones(deletes, JsonEvents())

    def piece(self, after: int, messages: Sequence[Any]) -> ReadPiece:
        """The values of these records, each on one line."""
        if messages:
            self.last[str(messages[-1].partition())] = messages[-1].offset(), _content(messages[-1])
        lines = [Timed(_on_one_line(value or _TOMBSTONE), 0) for value in self._tombstones.values(messages)]
        return ReadPiece(after, lines, None, len(lines))


def _on_one_line(value: bytes) -> bytes:
    # within JSON a newline is only between its tokens
    return value.replace(b"\r", b" ").replace(b"\n", b" ")
