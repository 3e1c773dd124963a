"""Requires that the tombstones in files of Debezium's events follow their deletes: a line ``null`` has no key.

A topic that was compacted before it was read has tombstones without their delete events. At its beginning they are of rows that no
file has; later ones may be of rows in earlier files, and nothing says which.
"""

from collections.abc import Iterable, Iterator
from typing import Any, Final, NamedTuple

import apache_beam as beam
from apache_beam.pvalue import PCollection

from beam_joins.errors import InputError
from beam_joins.pipelines.formats.envelopes.debezium_json import OPEN_DELETE, TOMBSTONE_ALONE
from beam_joins.pipelines.results.counts import Tally
from beam_joins.transforms.connect.runs import Handed

UNPAIRED: Final = frozenset({TOMBSTONE_ALONE, OPEN_DELETE})


class Beginning(NamedTuple):
    """The ``path`` of the file with the beginning of a topic, empty if an earlier run has read it, and the number of ``deletes`` in
    the files of earlier runs whose tombstones are still to come.
    """

    path: str
    deletes: int = 0


class Unpaired(NamedTuple):
    """The numbers of tombstones without deletes and of deletes without tombstones, and a file with one of these tombstones."""

    tombstones: int = 0
    deletes: int = 0
    file: str = ""

    @classmethod
    def counted_by(cls, tally: Tally) -> "Unpaired":
        """The tombstones or deletes that a tally counts; none for others."""
        if tally.what == TOMBSTONE_ALONE:
            return cls(tombstones=tally.records, file=min(tally.examples))
        return cls(deletes=tally.records) if tally.what == OPEN_DELETE else cls()

    @classmethod
    def sum(cls, some: Iterable["Unpaired"]) -> "Unpaired":
        """All of some.

        >>> Unpaired.sum([Unpaired(deletes=1), Unpaired(tombstones=2, file="2.jsonl")])
        Unpaired(tombstones=2, deletes=1, file='2.jsonl')
        """
        each = list(some)
        files = [unpaired.file for unpaired in each if unpaired.file]
        return cls(sum(unpaired.tombstones for unpaired in each), sum(unpaired.deletes for unpaired in each), min(files, default=""))

    def left_open(self, before: int) -> int:
        """The number of deletes whose tombstones are still to come, of those ``before`` and these."""
        return max(0, before + self.deletes - self.tombstones)


class RequireDeletes(beam.PTransform[PCollection[Tally], PCollection[Any]]):
    """Fails with an InputError if the counts of a changelog have more tombstones without deletes than deletes without tombstones,
    here and in earlier runs; gives nothing. The number of deletes that stay open is handed on by ``left_open``.
    """

    def __init__(self, name: str, deletes: int, left_open: Handed | None = None) -> None:
        super().__init__()
        self._name, self._deletes, self._left_open = name, deletes, left_open

    def expand(self, counts: PCollection[Tally]) -> PCollection[Any]:
        """Apply the transform."""
        unpaired = counts | beam.Map(Unpaired.counted_by) | beam.CombineGlobally(Unpaired.sum).without_defaults()
        nothing: PCollection[Any] = unpaired | beam.FlatMap(self._require)
        return nothing

    def _require(self, unpaired: Unpaired) -> Iterator[Any]:
        if unpaired.tombstones > unpaired.deletes + self._deletes:
            raise InputError(
                f"{self._name}: {unpaired.file} has tombstones (lines null) whose delete events were compacted away: they have no "
                "keys to tell which rows of earlier files they delete: read the topic itself (kafka://BROKERS/TOPIC, "
                "ReadKafkaChangeEvents), or delete the lines if their rows are in no file"
            )
        if self._left_open is not None:
            self._left_open.put(str(unpaired.left_open(self._deletes)))
        yield from ()
