"""Parses records one at a time where the vectorised path cannot, with the same columns or the reason of a bad
record.
"""

from typing import Any

import pyarrow as pa

from beam_joins.pipelines.formats.columns import plain_key
from beam_joins.pipelines.formats.exact_json import dumps_line
from beam_joins.pipelines.formats.reading import (
    DELETED,
    KEY,
    PLACE,
    REFERENCE,
    TIME,
    Reading,
    sequence_name,
)
from beam_joins.pipelines.formats.record_batch_parser import structs_one_by_one


class ExactRows:
    """Collects records without a fault, and makes columns of them.

    >>> from beam_joins.pipelines.formats.columns import Columns
    >>> rows = ExactRows(Reading(columns=Columns(key=("id",), timestamp="at", delete="op"), key=("whole numbers",)))
    >>> rows.add({"id": 7, "at": 5, "op": "d", "name": "Ann"}, place=0)
    >>> rows.batch().to_pylist()
    [{'key': 7, 'time': 5, 'deleted': True, 'place': 0, 'json lines': b'{"id":7,"at":5,"name":"Ann"}'}]
    """

    def __init__(self, reading: Reading) -> None:
        self._reading = reading
        self._lists: dict[str, list[Any]] = {name: [] for name in [*reading.schema.names, "json lines"]}

    def __len__(self) -> int:
        return len(self._lists[KEY])

    def add(self, row: dict[str, Any], place: int, text: bytes | None = None) -> None:
        """Add a record that has no fault; ``text`` is its JSON text without the columns about the change,
        where that is known.

        One that empties the table has no key, and null as
        :data:`~beam_joins.pipelines.formats.reading.DELETED`.
        """
        reading, columns, lists = self._reading, self._reading.columns, self._lists
        empties = columns.is_truncate(row)
        lists[KEY].append(None if empties else _key_of(row, columns.key, reading.key_type))
        lists[TIME].append(columns.time_of(row))
        for n, number in enumerate(columns.sequence_of(row) if reading.sequences else ()):
            lists[sequence_name(n)].append(number)
        lists[DELETED].append(None if empties else columns.is_delete(row))
        lists[PLACE].append(place)
        for name, column in reading.texts.items():
            lists[name].append(row.get(column))
        if reading.reference:
            lists[REFERENCE].append(_key_of(row, reading.reference, reading.reference_type))
        lists["json lines"].append(row_text(row, reading) if text is None else text)

    def batch(self, structs: pa.StructArray | None = None) -> pa.RecordBatch:
        """The columns of the records added; ``structs`` are their rows in typed columns, where these are known."""
        reading, lists = self._reading, self._lists
        made = {} if structs is None else {"columns": structs}
        if "columns" in reading.forms and structs is None:
            made["columns"] = structs_one_by_one(lists["json lines"], reading)
        columns = [made.get(field.name) if field.name in made else pa.array(lists[field.name], field.type) for field in reading.schema]
        return pa.record_batch(columns, schema=reading.schema)


def row_text(row: dict[str, Any], reading: Reading) -> bytes:
    """The JSON text of a record without the columns about the change; of one that empties the table, of no column."""
    return b"{}" if reading.columns.is_truncate(row) else dumps_line(reading.value_of(row, None))[:-1]


def _key_of(row: dict[str, Any], columns: tuple[str, ...], kind: pa.DataType) -> Any:
    """The key that columns of a row make, null where one of them is."""
    parts = [plain_key(row.get(column)) for column in columns]
    if not pa.types.is_struct(kind):
        return parts[0]
    return None if None in parts else {field.name: part for field, part in zip(kind, parts, strict=True)}
