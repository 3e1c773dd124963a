"""Records one by one: what is wrong with them, or the same columns that many at a time become."""

import io
from typing import Any

import fastavro
import pyarrow as pa

from beam_joins.pipelines.changelog_files.exact_json import dumps_line
from beam_joins.pipelines.changelog_files.reading import DELETED, ENOUGH, KEY, PLACE, REFERENCE, TIME, Reading, sequence_name


class ExactRows:
    """Collects records without a fault, and makes columns of them.

    >>> from beam_joins.pipelines.changelog_files.columns import Columns
    >>> rows = ExactRows(Reading(columns=Columns(key="id", timestamp="at", delete="op"), key="whole numbers"))
    >>> rows.add({"id": 7, "at": 5, "op": "d", "name": "Ann"}, place=0)
    >>> rows.batch().to_pylist()
    [{'key': 7, 'time': 5, 'deleted': True, 'place': 0, 'json lines': b'{"id":7,"at":5,"name":"Ann"}'}]
    """

    def __init__(self, reading: Reading) -> None:
        self._reading = reading
        self._avro = None if reading.avro is None else fastavro.parse_schema(reading.avro)
        self._lists: dict[str, list[Any]] = {name: [] for name in reading.schema.names}

    def __len__(self) -> int:
        return len(self._lists[KEY])

    def add(self, row: dict[str, Any], place: int, text: bytes | None = None) -> None:
        """Add a record that has no fault; ``text`` is its JSON text without the columns about the change, where that is known.

        One that empties the table has no key, and null as :data:`~beam_joins.pipelines.changelog_files.reading.DELETED`.
        """
        reading, columns, lists = self._reading, self._reading.columns, self._lists
        empties = columns.is_truncate(row)
        lists[KEY].append(None if empties else row[columns.key])
        lists[TIME].append(columns.time_of(row))
        for n, number in enumerate(columns.sequence_of(row) if reading.sequences else ()):
            lists[sequence_name(n)].append(number)
        lists[DELETED].append(None if empties else columns.is_delete(row))
        lists[PLACE].append(place)
        if reading.reference is not None:
            lists[REFERENCE].append(row.get(reading.reference))
        if reading.least is not None:
            lists[ENOUGH].append(reading.is_enough(row.get(reading.amount or "")))
        if empties:
            text = b"{}"
        value = reading.value_of(row, None) if text is None else {}
        for form in reading.forms:
            lists[form].append(
                self._in_avro(value) if form == "avro" and not empties else dumps_line(value)[:-1] if text is None else text
            )

    def batch(self) -> pa.RecordBatch:
        """The columns of the records added."""
        schema = self._reading.schema
        return pa.record_batch([pa.array(self._lists[field.name], field.type) for field in schema], schema=schema)

    def _in_avro(self, value: dict[str, Any]) -> bytes:
        assert self._avro is not None
        written = io.BytesIO()
        fastavro.schemaless_writer(written, self._avro, value)
        return written.getvalue()
