"""The changes of a table as records of a topic: key, value, time and position."""

import re
from collections.abc import Iterator, Mapping
from copy import copy
from typing import Any, Final, Literal, NamedTuple, Self

import pyarrow as pa
import pyarrow.compute as pc

from beam_joins.columns.positions import times_or_null
from beam_joins.keys.hashes import hashes
from beam_joins.pipelines.formats.arrow import ArrowEncoder, opened
from beam_joins.pipelines.formats.avro import AvroEncoder
from beam_joins.pipelines.formats.json_lines import JsonEncoder
from beam_joins.pipelines.formats.output_records import Anew, ChangeRecords
from beam_joins.pipelines.formats.registry import Format
from beam_joins.pipelines.formats.types.target_types import target_type
from beam_joins.pipelines.results.merge_once import CHECKSUMS
from beam_joins.pipelines.results.sorted_output import ChangesInOrder
from beam_joins.tables.batch import ChangeBatch
from beam_joins.transforms.connect.tables import PlainRows
from beam_joins.values.arrow_types import is_text, is_uuid, uuid_texts

KeyFormat = Literal["text", "json", "avro"]
ValueFormat = Literal["json", "avro"]
TopicRecordsOf = Literal["upserts", "pairs", "changes"]

MESSAGE: Final = pa.struct(
    [("key", pa.binary()), ("value", pa.binary()), ("time", pa.int64()), ("position", pa.int64()), ("deleted", pa.bool_())]
)
"""A record of a topic: its event time in microseconds and its position, null where it has none, and whether it is a delete."""
_FORMATS: Final[Mapping[ValueFormat, Format]] = {"json": "json lines", "avro": "avro"}


class MessagesPart(NamedTuple):
    """Some messages in their order, as an Arrow file, and a number that does not depend on how they are cut into parts."""

    checksum: int
    file: bytes


class TopicMessages:
    """Encodes the changes of a table as records of a topic: :class:`~beam_joins.pipelines.formats.output_records.TableRecords`,
    which are handed over in an Arrow file.

    ``key_schema`` and ``value_schema`` are those of keys and values in Avro, which lack the number of their schema; ``None`` for
    another format.
    """

    format: Format = "arrow"
    typed = True
    of_finals = False
    anew: Anew | None = None

    def __init__(
        self,
        rows: PlainRows,
        records: TopicRecordsOf,
        *,
        key_format: KeyFormat | None,
        value: ValueFormat,
        table: str,
        topic: str,
    ) -> None:
        """Raises ``ValueError`` for columns that the formats do not have."""
        self._rows, self.upserts = rows, records == "upserts"
        self.has_tombstones = records == "pairs"
        """Whether a delete, whose value is not null, is followed by a tombstone."""
        self._values = ChangeRecords(rows, "rows" if records == "upserts" else records, _FORMATS[value], table)
        self._keys = _key_encoder(pa.schema([rows.schema.field(name) for name in rows.keys]), key_format, rows, topic)
        self._in_lines = value == "json"
        self.key_schema: Any = self._keys.schema if isinstance(self._keys, AvroEncoder) else None
        self.value_schema: Any = None
        if value == "avro":
            schema = target_type("avro", "", pa.struct(list(self._values.columns)))
            self.value_schema = {**schema, "name": f"{_name(topic)}_value"}

    def begun(self, anew: Anew | None) -> Self:
        """The same of a table that begins anew. Raises ``ValueError`` for upserts."""
        if anew is not None and self.upserts:
            raise ValueError(
                f"the table begins anew at position {anew.position}, and upserts cannot say that the rows of earlier runs are void: "
                "write to a new topic, or changes or pairs (records=)"
            )
        messages = copy(self)
        messages._values, messages.anew = self._values.begun(anew), anew
        return messages

    @property
    def head(self) -> pa.Array | None:
        """A truncate, where changes or pairs are of a table that begins anew; it has no key."""
        head = self._values.head
        if head is None or self.anew is None:
            return None
        time, position = self.anew.moment()
        return _messages(pa.nulls(1, pa.binary()), self._lines(head), [time], [position], [False])

    @property
    def columns(self) -> pa.Schema:
        """The columns of the rows."""
        return self._rows.schema

    def writer(self, file: Any) -> Any:
        """A writer of messages to a file."""
        return ArrowEncoder(pa.schema(list(MESSAGE)), False).writer(file)

    def of_rows(self, keys: pa.Array, values: pa.Array) -> pa.Array:
        """A topic has no final rows."""
        raise NotImplementedError

    def of_changes(self, changes: ChangeBatch, old: pa.Array, new: pa.Array) -> pa.Array:
        """The records of changes with their old and new values."""
        deleted = new.is_null()
        if self.upserts:
            values = pc.if_else(deleted, pa.scalar(None, pa.binary()), self._lines(self._values.of_rows(changes.key, new)))
        else:
            values = self._lines(self._values.of_changes(changes, old, new))
        keys = self._keys.encoded(self._rows.columns(changes.key, new)[: len(self._rows.keys)])
        keys = pc.binary_slice(keys, 0, -1) if isinstance(self._keys, JsonEncoder) else keys
        return _messages(keys, values, times_or_null(changes.timestamp), times_or_null(changes.position), deleted)

    def parts(self, batch: ChangeBatch) -> Iterator[MessagesPart]:
        """The messages of a batch, some at a time, in the order of their positions."""
        for rows in ChangesInOrder(self.of_changes)(batch):
            sink = pa.BufferOutputStream()
            with pa.ipc.new_file(sink, rows.schema, options=pa.ipc.IpcWriteOptions(compression="lz4")) as writer:
                writer.write_batch(rows)
            yield MessagesPart(checksum_of(rows["record"]), sink.getvalue().to_pybytes())

    def _lines(self, values: pa.Array) -> pa.Array:
        """Encoded values without the ends of their lines."""
        return pc.binary_slice(values, 0, -1) if self._in_lines else values


class _Texts:
    """Keys of one column as text."""

    def encoded(self, columns: list[pa.Array]) -> pa.Array:
        """The texts of keys."""
        (column,) = columns
        return (uuid_texts(column) if is_uuid(column.type) else column).cast(pa.string()).cast(pa.binary())


def _key_encoder(keys: pa.Schema, format_: KeyFormat | None, rows: PlainRows, topic: str) -> _Texts | JsonEncoder | AvroEncoder:
    """The encoder of keys of these columns. Raises ``ValueError``."""
    if not len(keys):
        raise ValueError("the table is a total, which has no key for the records of a topic: write a file")
    (kind, *others) = keys.types
    is_textual = not others and (is_text(kind) or is_uuid(kind) or pa.types.is_integer(kind))
    if format_ == "text" and not is_textual:
        shown = ", ".join(f"{field.name} ({field.type})" for field in keys)
        raise ValueError(f"key_format='text' is for one column of text, whole numbers or UUIDs, and the key is {shown}: choose 'json'")
    if format_ == "avro":
        return AvroEncoder(keys, False, name=f"{_name(topic)}_key", nullable=rows.nullable_key)
    return _Texts() if is_textual and format_ != "json" else JsonEncoder(keys, False)


def checksum_of(messages: pa.Array) -> int:
    """A number of messages that does not depend on their order."""
    return int(hashes(messages).sum(dtype="uint64")) % CHECKSUMS


def _name(topic: str) -> str:
    """The name of a topic as a name in Avro.

    >>> _name("shop.orders-2")
    'shop_orders_2'
    """
    return re.sub(r"^(?=\d)|[^A-Za-z0-9_]", "_", topic)


def messages_in(file: str) -> Iterator[pa.Array]:
    """The messages in an Arrow file, some at a time."""
    with opened(file) as batches:
        for number in range(batches.num_record_batches):
            yield batches.get_batch(number).to_struct_array()


def _messages(keys: pa.Array, values: pa.Array, times: Any, positions: Any, deleted: Any) -> pa.StructArray:
    columns = [each if isinstance(each, pa.Array) else pa.array(each) for each in (keys, values, times, positions, deleted)]
    fields = list(MESSAGE)
    cast = [column.cast(field.type) for column, field in zip(columns, fields, strict=True)]
    return pa.StructArray.from_arrays(cast, fields=fields)
