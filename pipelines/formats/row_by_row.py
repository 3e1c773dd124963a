"""Parses records one at a time where the vectorised path cannot, with the same columns or the reason of a bad
record.
"""

from typing import Any

import pyarrow as pa

from beam_joins.keys.opaque import opaque_keys, opaque_values
from beam_joins.pipelines.formats.changelog_columns import DELETED, KEY, PLACE, REFERENCE, TIME, plain_key, reference_at
from beam_joins.pipelines.formats.read_plan import ReadPlan
from beam_joins.pipelines.formats.record_batch_parser import record_batch, structs_one_by_one
from beam_joins.pipelines.formats.types.exact_json import dumps_line


class ExactRows:
    """Collects records without a fault, and makes columns of them.

    >>> from beam_joins.pipelines.formats.changelog_columns import Columns
    >>> rows = ExactRows(ReadPlan(columns=Columns(key=("id",), timestamp="at", delete="op"), key=("whole numbers",)))
    >>> rows.add({"id": 7, "at": 5, "op": "d", "name": "Ann"}, place=0, text=b'{"id":7,"at":5,"name":"Ann"}')
    >>> rows.batch().to_pylist()
    [{'(key)': 7, '(time)': 5, '(deleted)': True, '(place)': 0, 'json lines': b'{"id":7,"at":5,"name":"Ann"}'}]
    """

    def __init__(self, plan: ReadPlan, *, of_lines: bool = False) -> None:
        """``of_lines``: texts are those of whole records."""
        self._plan, self._of_lines = plan, of_lines
        self._lists: dict[str, list[Any]] = {name: [] for name in plan.about.names}
        self._references: list[Any] = []
        self._texts: list[bytes] = []
        self._objects: list[dict[str, Any]] = []

    def __len__(self) -> int:
        return len(self._lists[PLACE])

    def add(self, row: dict[str, Any], place: int, text: bytes = b"{}", key: Any = None, value: Any = None) -> None:
        """Add a record that has no fault; ``text`` is the JSON text of its row, or of the whole record with
        ``of_lines``; ``key`` and ``value`` are those of a table of dicts.

        One that empties the table has no key, and null as
        :data:`~beam_joins.pipelines.formats.changelog_columns.DELETED`.
        """
        plan, columns, lists = self._plan, self._plan.columns, self._lists
        empties = columns.is_truncate(row)
        lists[TIME].append(columns.time_of(row))
        for name, number in zip(plan.positions, columns.sequence_of(row), strict=False):
            lists[name].append(number)
        lists[DELETED].append(None if empties else columns.is_delete(row))
        lists[PLACE].append(place)
        for name, column in plan.texts.items():
            lists[name].append(row.get(column))
        if plan.reference:
            self._references.append(_key_of(row, plan.reference, plan.reference_type))
        if "object" in plan.forms:
            lists[KEY].append(None if empties else key)
            self._objects.append(value)
            return
        if columns.key:
            lists[KEY].append(None if empties else _key_of(row, columns.key, plan.key_type))
        self._texts.append(text)

    def batch(self, structs: pa.StructArray | None = None) -> pa.RecordBatch:
        """The columns of the records added; ``structs`` are their rows in typed columns, where these are known."""
        plan = self._plan
        made = {} if structs is None else {"columns": structs}
        if plan.is_typed and structs is None:
            made["columns"] = structs_one_by_one(self._texts, plan, of_lines=self._of_lines)
        if "object" in plan.forms:
            made |= {"object": opaque_values(self._objects), KEY: opaque_keys(self._lists[KEY])}
        if "json lines" in plan.forms:
            made["json lines"] = pa.array(self._texts, pa.binary())
        if plan.reference:
            made[REFERENCE] = pa.array(self._references, plan.reference_type)
        about = {field.name: pa.array(self._lists[field.name], field.type) for field in plan.about if field.name not in made}
        return record_batch(plan, about | made)


def printed_row(row: dict[str, Any], plan: ReadPlan) -> bytes:
    """The JSON text of the row in a record whose values have no texts: its columns without those about the change."""
    return dumps_line(plan.value_of(row, None))[:-1]


def _key_of(row: dict[str, Any], columns: tuple[str, ...], kind: pa.DataType) -> Any:
    """The key that columns of a row make, null where one of them is."""
    parts = [plain_key(reference_at(row, column)) for column in columns]
    if not pa.types.is_struct(kind):
        return parts[0]
    return None if None in parts else {field.name: part for field, part in zip(kind, parts, strict=True)}
