"""Counts records in the pipeline, exactly on every runner: the counts travel as data and not as metrics."""

from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any, Final, NamedTuple

import pyarrow as pa
from apache_beam.transforms.window import GlobalWindow
from apache_beam.utils.timestamp import MIN_TIMESTAMP
from apache_beam.utils.windowed_value import WindowedValue

from beam_joins import ChangeBatch, Dropped
from beam_joins.columns.sorting import integers, valid
from beam_joins.keys.key_columns import Bools
from beam_joins.transforms.connect.runs import KeptSignatures

EXAMPLES: Final = 3
"""The number of counted records that are kept as examples."""
NULL_FOREIGN_KEY: Final = "null_foreign_key"
NULL_GROUP: Final = "null_group"


class Tally(NamedTuple):
    """A count of one kind of record at one place, with a few examples: ``Tally("orders", "null_key", 4)``."""

    place: str
    what: str
    records: int
    examples: tuple[str, ...] = ()


class TallyDropped(KeptSignatures):
    """Counts ``PCollection[Dropped]``: one :class:`Tally` for each reason and bundle; sentences about bad records
    are examples.
    """

    def __init__(self, place: str) -> None:
        self._place = place

    def start_bundle(self) -> None:
        """Count from nothing."""
        self._counts: Counter[str] = Counter()
        self._examples: defaultdict[str, list[str]] = defaultdict(list)

    def process(self, element: Dropped) -> None:
        """Count one record."""
        self._counts[element.reason] += 1
        if isinstance(element.record, str) and len(examples := self._examples[element.reason]) < EXAMPLES:
            examples.append(element.record)

    def finish_bundle(self) -> Iterator[WindowedValue]:
        """Emit the counts."""
        for reason, count in self._counts.items():
            yield at_bundle_end(Tally(self._place, reason, count, tuple(self._examples[reason])))


class TallyRows(KeptSignatures):
    """Counts the rows that a table has in the end: one :class:`Tally` a bundle for each name in ``which``.

    ``which`` says what is counted: its functions get the values of a batch, and give truth values, for rows
    that count. Inserts count for, deletes against, so that the sum is exact in whatever bundles the changes
    come.
    """

    def __init__(self, place: str, which: Mapping[str, Callable[[pa.Array], Bools]]) -> None:
        self._place = place
        self._which = which

    def start_bundle(self) -> None:
        """Count from nothing."""
        self._counts = dict.fromkeys(self._which, 0)

    def process(self, element: ChangeBatch) -> None:
        """Count the changes of a batch."""
        values = element.values
        exists, old = valid(values), element.before.drop_null()
        for what, counts in self._which.items():
            counted = exists & counts(values)
            self._counts[what] += int(counted[: len(element)].sum()) - int(counted[integers(old)].sum())

    def finish_bundle(self) -> Iterator[WindowedValue]:
        """Emit the counts."""
        for what, count in self._counts.items():
            yield at_bundle_end(Tally(self._place, what, count))


class TallyUnreferring(KeptSignatures):
    """Counts the changes whose new row refers to nothing; ``unreferring`` says which values do not refer."""

    def __init__(self, place: str, unreferring: Callable[[pa.Array], Bools]) -> None:
        self._place = place
        self._unreferring = unreferring

    def start_bundle(self) -> None:
        """Count from nothing."""
        self._count = 0

    def process(self, element: ChangeBatch) -> None:
        """Count the changes of a batch."""
        self._count += int((valid(element.new) & self._unreferring(element.new)).sum())

    def finish_bundle(self) -> Iterator[WindowedValue]:
        """Emit the count."""
        if self._count:
            yield at_bundle_end(Tally(self._place, NULL_FOREIGN_KEY, self._count))


def at_bundle_end(element: Any) -> WindowedValue:
    """Wraps an element that ``finish_bundle`` yields into the global window."""
    return WindowedValue(element, MIN_TIMESTAMP, (GlobalWindow(),))


def add_up(tallies: Iterable[Tally]) -> dict[tuple[str, str], Tally]:
    """Sums the tallies of each place and kind; keeps the first examples.

    >>> add_up([Tally("orders", "read", 2), Tally("orders", "read", 3, ("b", "a"))])
    {('orders', 'read'): Tally(place='orders', what='read', records=5, examples=('a', 'b'))}
    """
    sums: dict[tuple[str, str], Tally] = {}
    for place, what, count, examples in tallies:
        before = sums.get((place, what), Tally(place, what, 0))
        first = tuple(sorted((*before.examples, *examples))[:EXAMPLES])
        sums[place, what] = Tally(place, what, before.records + count, first)
    return sums
