"""The join of rows with the rows that they refer to, whose result is keyed by :class:`CombinedKey` and stays in the partition of the foreign key.

It is the first half of KIP-213's protocol, as Jan Filipiak proposed it: a left row travels, under its combined key, to the partition of its
foreign key, and is joined there. So a left row may refer to several right rows, and a right row that nothing refers to may have a row too.
"""

from collections.abc import Callable, Iterable
from functools import partial
from typing import Any, Protocol

from apache_beam.coders import Coder
from apache_beam.pvalue import PCollection

from beam_joins.change import Change
from beam_joins.coders.combined_key import CombinedKeyCoder, prefix, split
from beam_joins.coders.key import encode_key
from beam_joins.combined_key import CombinedKey
from beam_joins.record import Record
from beam_joins.transforms.engine.block_writer import DROPPED, MAIN, BlockWriter
from beam_joins.transforms.engine.checked_table import checked_table
from beam_joins.transforms.engine.lookup_replay import LookupReplay
from beam_joins.transforms.engine.notes import keys_may_meet
from beam_joins.transforms.engine.outputs import Handling, Outputs
from beam_joins.transforms.engine.replay import Replay, Route, RowRouter
from beam_joins.transforms.engine.table_rows import table_rows
from beam_joins.transforms.engine.table_type import TableType, as_table, common_order, not_a_change, table_type
from beam_joins.user_functions import OfRows
from tests.reference.lookup_join import LookupHow, ResultKey

LEFT, RIGHT = "left", "right"

References = Callable[[Any, Any], Iterable[Any] | None]
"""The foreign keys of a row, given its key and value; empty or ``None`` if it refers to nothing."""


class PrefixCoder(Protocol):
    """A coder of combined keys, every key of which begins with ``prefix(foreign key)``."""

    def encode(self, value: CombinedKey[Any, Any]) -> bytes:
        """The bytes of a combined key."""

    def decode(self, encoded: bytes) -> CombinedKey[Any, Any]:
        """The combined key of its bytes."""

    def prefix(self, foreign_key: Any) -> bytes:
        """What the bytes of every combined key of this foreign key begin with, and of no other."""


def checked_encode(coder: PrefixCoder, key: CombinedKey[Any, Any]) -> bytes:
    """The bytes of a combined key; raises ``ValueError`` if they do not begin with its prefix or do not come back as the key."""
    encoded, start = coder.encode(key), coder.prefix(key.foreign_key)
    if not encoded.startswith(start):
        raise ValueError(
            f"{type(coder).__name__} writes {key} as {encoded!r}, which does not begin with {start!r}, its prefix of the foreign key:"
            " write the foreign key first, its length before it"
        )
    if coder.decode(encoded) != key:
        raise ValueError(f"{type(coder).__name__} writes {key} as {encoded!r} and reads {coder.decode(encoded)} from that")
    return encoded


def reference_join(
    transform: str,
    left: PCollection[Any],
    right: PCollection[Any],
    *,
    handling: Handling,
    references: References,
    joiner: Callable[[Any, Any], Any],
    how: LookupHow,
    coder: PrefixCoder,
    values: tuple[Coder, Coder],
    partitions: int,
    dropping: tuple[str, ...] = (),
    key_mapper: Callable[[CombinedKey[Any, Any]], Any] | None = None,
    swapped: bool = False,
) -> Outputs:
    """The joined table, keyed by combined keys or by what ``key_mapper`` makes of them, and the dropped records."""
    # the changes of a left row part here, each to its foreign key
    left = checked_table(left, f"the key of {transform}'s referring table", partitions)
    nothing = coder.prefix(None) if how in ("left", "outer") else None
    order = common_order(transform, table_type(left), table_type(right))
    prefix_of = _prefix_of(coder)

    def key_of(result: ResultKey) -> Any:
        if result.right_alone:
            return CombinedKey(coder.foreign_key(result.key), None)  # type: ignore[attr-defined]  # only for our own coder
        return coder.decode(result.key)

    def row_key(key: bytes, input: int) -> Any:
        if not input:
            return coder.decode(key).primary_key
        return coder.foreign_key(key) if isinstance(coder, CombinedKeyCoder) else key

    def lookup(record: Record) -> bytes | None:
        start = prefix_of(record.key)
        return None if start == nothing else start

    def route(record: Record) -> bytes:
        return record.key if record.input else lookup(record) or record.key

    functions = handling.functions
    left_rows = functions.route(_referring_rows(functions.of_rows(references), coder, values[0], nothing))
    lefts = left | "Left" >> Route(left_rows, to=(LEFT, *dropping, *handling.tags), partitions=partitions)
    rights = right | "Right" >> Route(
        table_rows(RIGHT, coder.prefix, values[1], input=1, windowed=table_type(right).windowed, noted=_canonical(coder)),
        to=(RIGHT,),
        partitions=partitions,
    )
    operator = LookupReplay(
        joiner,
        how,
        functions=functions,
        values=values,
        result_key=key_of,
        row_key=row_key,
        key_mapper=key_mapper,
        swapped=swapped,
        lookup=lookup,
        route=route,
        shared_keys=False,
    )
    joined = (lefts[LEFT], rights[RIGHT]) | "Join" >> Replay(
        functions.replay(operator),
        to=(MAIN, *handling.tags),
        partitions=partitions,
        main_type=Change,
        check=keys_may_meet(transform, LEFT, RIGHT, "foreign keys", "keys that they refer to"),
    )
    handling.collect(lefts, joined)
    return Outputs(as_table(joined[MAIN], TableType(Any if key_mapper else CombinedKey, Any, order)), lefts.get(DROPPED))


def _referring_rows(references: OfRows, coder: PrefixCoder, values: Coder, nothing: bytes | None) -> RowRouter:
    encode: Callable[[CombinedKey[Any, Any]], bytes]
    encode = partial(encode_key, coder, what="the combined key") if type(coder) is CombinedKeyCoder else partial(checked_encode, coder)
    prefix_of, canonical = _prefix_of(coder), _canonical(coder)

    def combined(key: Any, value: Any) -> dict[bytes, None]:
        if value is None:
            return {}
        given = references(key, value)
        if isinstance(given, str | bytes):
            raise ValueError(f"foreign_keys gave {given!r}, one key and not a list: give [{given!r}], or use foreign_key")
        foreign_keys = [fk for fk in given or () if fk is not None]
        if not foreign_keys and nothing is not None:
            foreign_keys = [None]
        return dict.fromkeys(encode(CombinedKey(fk, key)) for fk in foreign_keys)

    def rows(change: Change[Any, Any], arrival: int, writer: BlockWriter) -> None:
        if type(change) is not Change:
            raise not_a_change(change)
        key, old, new, timestamp, position = change
        before, after = combined(key, old), combined(key, new)
        encoded = None if new is None else values.encode(new)
        if new is not None and not references.report(change, timestamp) and not after:
            writer.drop("null_foreign_key", change, timestamp)
        for combined_key in before | after:
            start = prefix_of(combined_key)
            if canonical is not None and (part := canonical(combined_key)) is not None:
                writer.note_key(LEFT, part)
            record = Record(combined_key, encoded if combined_key in after else None, timestamp, position)
            writer.send(LEFT, combined_key if start == nothing else start, record)

    return rows


def _canonical(coder: PrefixCoder) -> Callable[[bytes], bytes | None] | None:
    return coder.canonical_foreign_key if isinstance(coder, CombinedKeyCoder) else None


def _prefix_of(coder: PrefixCoder) -> Callable[[bytes], bytes]:
    if type(coder) is CombinedKeyCoder:
        return lambda encoded: prefix(split(encoded).foreign_key)
    return lambda encoded: coder.prefix(coder.decode(encoded).foreign_key)
