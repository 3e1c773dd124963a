"""KIP-213's protocol in three stages: subscribe, answer, and back to the left row; see :mod:`beam_joins.foreign_key_columns`."""

from collections.abc import Callable, Iterable, Iterator
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
from apache_beam.coders import Coder
from apache_beam.pvalue import PCollection

from beam_joins.batch import ChangeBatch
from beam_joins.changelog import upsert
from beam_joins.coders.block import read_blocks
from beam_joins.coders.key import KeyCoder, encode_key
from beam_joins.copied import copied
from beam_joins.foreign_key_columns import answers, subscriptions
from beam_joins.functions import keys_of, vectorized
from beam_joins.joiner import Join, narrowed
from beam_joins.keys.columns import kinds, kinds_of_encoded
from beam_joins.keys.hashes import hashes
from beam_joins.keys.opaque import opaque_keys
from beam_joins.sorting import valid
from beam_joins.transforms.engine.block_writer import MAIN, BlockWriter
from beam_joins.transforms.engine.checked_table import naming_keys
from beam_joins.transforms.engine.notes import keys_may_meet
from beam_joins.transforms.engine.outputs import Handling
from beam_joins.transforms.engine.replay import Replay
from beam_joins.transforms.engine.table_form import TableForm, changes, no_rows, require_one_change
from beam_joins.transforms.engine.table_type import not_a_change
from beam_joins.transforms.engine.user_functions import StageFunctions
from tests.reference.foreign_key import How

LEFT, RIGHT, SUBSCRIPTIONS, RESULTS = "left", "right", "subscriptions", "results"


class References(NamedTuple):
    """What the rows of a batch refer to."""

    of: Callable[[ChangeBatch], tuple[pa.Array, dict[int, BaseException]]]
    """The foreign keys, and what was raised for the rows of which they are not known: those refer to nothing."""
    kinds: Callable[[pa.Array], set[str]]
    """The kinds of foreign keys, none where that is not known."""


class Subscribe:
    """Step one, at the left row: what a left table's changes ask the side of the foreign key."""

    def __init__(
        self, form: TableForm, how: How, references: References, functions: StageFunctions, columns: frozenset[str] | None
    ) -> None:
        self._form = form
        self._how: How = how
        self._references = references
        self._functions = functions
        self._columns = columns

    def send(self, batch: Any, arrival: int, writer: BlockWriter) -> None:
        """Put the subscriptions of a batch into the writer."""
        if not isinstance(batch, ChangeBatch):
            raise not_a_change(batch)
        foreign_key, raised = self._references.of(batch)
        failed = np.zeros(len(batch), np.bool_)
        if raised:
            failed[list(raised)] = True
            for (change, timestamp), error in zip(self._changes(batch, failed), raised.values(), strict=True):
                self._functions.leave_out(change, error, timestamp)
        if self._how == "inner":
            nowhere = valid(batch.new) & ~valid(foreign_key) & ~failed
            writer.drop_rows("null_foreign_key", int(nowhere.sum()), lambda: self._changes(batch, nowhere))
        asked = subscriptions(batch, foreign_key, self._how)
        asked = asked.set_column(asked.schema.get_field_index("value"), "value", narrowed(asked.column("value"), self._columns))
        writer.noted(SUBSCRIPTIONS).update(self._references.kinds(foreign_key))
        keys = asked.column("foreign_key")
        where = np.where(valid(keys), hashes(keys), hashes(asked.column("key")))
        writer.send_columns(SUBSCRIPTIONS, where, asked)

    def replay(self, blocks: Iterable[bytes], writer: BlockWriter) -> Iterator[Any]:
        """The same for the encoded records of a left table."""
        batch, lost = upsert(read_blocks(blocks)[LEFT], "records", self._form.encode)
        require_one_change(self._form, lost)
        self.send(batch, 0, writer)
        return iter(())

    def _changes(self, batch: ChangeBatch, which: Any) -> Iterator[tuple[Any, int]]:
        for change, chosen in zip(changes(self._form, batch), which.tolist(), strict=True):
            if chosen:
                yield change, change.timestamp


def references_in_columns(foreign_key: Any, form: TableForm, functions: StageFunctions) -> References:
    """What rows in columns refer to."""
    if not callable(foreign_key) or isinstance(foreign_key, vectorized):
        return References(lambda batch: (keys_of("foreign_key", foreign_key, batch.new), {}), kinds)

    def references(batch: ChangeBatch) -> tuple[pa.Array, dict[int, BaseException]]:
        given, raised = _each_reference(foreign_key, form, functions, batch)
        return opaque_keys(given), raised

    return References(references, kinds)


def references_in_records(
    foreign_key: Callable[[Any, Any], Any], form: TableForm, right_keys: Coder, functions: StageFunctions
) -> References:
    """What encoded rows refer to, written as the right keys are."""

    def references(batch: ChangeBatch) -> tuple[pa.Array, dict[int, BaseException]]:
        given, raised = _each_reference(foreign_key, form, functions, batch)
        encoded = [None if key is None else encode_key(right_keys, key, "the foreign key") for key in given]
        return pa.array(encoded, pa.binary()), raised

    return References(references, kinds_of_encoded if isinstance(right_keys, KeyCoder) else lambda encoded: set())


def _each_reference(
    foreign_key: Callable[[Any, Any], Any], form: TableForm, functions: StageFunctions, batch: ChangeBatch
) -> tuple[list[Any], dict[int, BaseException]]:
    rows = zip(form.keys(batch.key), form.values(batch.new), strict=True)
    if not functions.handles_any:
        return [None if value is None else copied(foreign_key(key, value)) for key, value in rows], {}
    of_row = functions.of_rows(foreign_key)
    given: list[Any] = []
    raised: dict[int, BaseException] = {}
    for n, (key, value) in enumerate(rows):
        given.append(None if value is None else copied(of_row(key, value)))
        if value is not None and of_row.raised is not None:
            raised[n] = of_row.raised
    return given, raised


class _Answer:
    """Step two, at the side of the foreign key: subscriptions joined with the right rows."""

    def __init__(self, join: Join, how: How, rights: TableForm) -> None:
        self._join = join
        self._how: How = how
        self._rights = rights

    def replay(self, blocks: Iterable[bytes], writer: BlockWriter) -> Iterator[Any]:
        inputs = read_blocks(blocks)
        if SUBSCRIPTIONS in inputs:
            with naming_keys(self._rights):
                rows = answers(inputs[SUBSCRIPTIONS], inputs.get(RIGHT, no_rows()), self._join, self._how)
            writer.send_columns(RESULTS, hashes(rows.column("key")), rows)
        return iter(())


class _Return:
    """Step three, back at the left row: its results in turn, each with the one before."""

    def __init__(self, form: TableForm) -> None:
        self._form = form

    def replay(self, blocks: Iterable[bytes], writer: BlockWriter) -> Iterator[Any]:
        batch, _ = upsert(read_blocks(blocks)[RESULTS], "updates", self._form.encode)
        return self._form.elements(batch)


def by_protocol(
    subscribed: PCollection[Any],
    rights: PCollection[Any],
    *,
    join: Join,
    how: How,
    form: TableForm,
    right_form: TableForm,
    handling: Handling,
    partitions: int,
) -> PCollection[Any]:
    """The joined table, in the given form; the right table is in a form of its own."""
    answer = handling.functions.replay(_Answer(join, how, right_form))
    answered = (subscribed, rights) | "Answer" >> Replay(
        answer,
        to=(RESULTS, *handling.tags),
        partitions=partitions,
        check=keys_may_meet("ForeignKeyJoin", SUBSCRIPTIONS, RIGHT, "foreign keys", "right table's keys"),
    )
    handling.collect(answered)
    returned = (answered[RESULTS],) | "Return" >> Replay(_Return(form), partitions=partitions, main_type=form.element_type)
    joined: PCollection[Any] = returned[MAIN]
    return joined
