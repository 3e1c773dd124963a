"""Makes elements of the rows that envelopes in files are about, and their table."""

from collections.abc import Iterator, Sequence
from functools import partial, reduce
from typing import Any, Literal

import msgspec
import pyarrow as pa
import pyarrow.compute as pc

from beam_joins import TableFromChangelog, vectorized
from beam_joins.content import Emit
from beam_joins.pipelines.changelogs.read_records import MadeRows, fitting
from beam_joins.pipelines.formats.columns import LEFT_OUT, LIFE, LOG, OPERATION, ORDER, PLACE, POSITION, TIME, BytesText
from beam_joins.pipelines.formats.envelopes.row_change import DELETE, TRUNCATE, lists_of_names
from beam_joins.pipelines.formats.envelopes.typed_texts import typed
from beam_joins.pipelines.formats.exact_json import object_of
from beam_joins.pipelines.formats.files import Part
from beam_joins.pipelines.formats.registry import ENVELOPES
from beam_joins.transforms import connect

MARKS = pa.schema(
    [
        *((OPERATION, pa.string()), (TIME, pa.int64()), (POSITION, pa.int64())),
        *((ORDER, pa.int64()), (LOG, pa.string()), (LEFT_OUT, pa.string()), (LIFE, pa.string()), (PLACE, pa.int64())),
    ]
)
"""The columns for what envelopes say."""


def placeholders(unavailable_value: str | Sequence[str], format: str) -> tuple[str, ...]:
    """The placeholders for unchanged values, from the option.

    Raises ValueError for other values, and for a format that has none.
    """
    named = (
        tuple(unavailable_value)
        if isinstance(unavailable_value, Sequence) and not isinstance(unavailable_value, str)
        else (unavailable_value,)
    )
    for each in named:
        connect.text("unavailable_value", each, "a placeholder, as in the connector's unavailable.value.placeholder")
    if named and format != "debezium":
        raise ValueError(f"unavailable_value= is for format='debezium': format={format!r} has no placeholders")
    return named


def marked_table(
    key: list[str], *, emit: Emit, without_earlier: Literal["fail", "drop"], in_columns: bool, nested: bool = True
) -> TableFromChangelog:
    """Makes a table of rows whose envelopes have added columns, by the columns of its key; ``nested``: a dot in
    their names leads into a column.
    """
    return TableFromChangelog(
        key=key_of(key, in_columns=in_columns) if nested else key[0] if len(key) == 1 else key,
        timestamp_by=TIME,
        sequence_by=[POSITION, ORDER],
        one_log_by=LOG,
        tie_break_by=PLACE,
        unchanged_by=vectorized(_lists_left_out) if in_columns else _left_out,
        without_earlier=without_earlier,
        apply_as_deletes={OPERATION: [DELETE]},
        apply_as_inserts=vectorized(_lives) if in_columns else _life,
        apply_as_truncates={OPERATION: [TRUNCATE]},
        except_columns=MARKS.names,
        emit=emit,
    )


def _life(row: Any) -> Any:
    return row[LIFE] or ""


def _lives(rows: pa.RecordBatch) -> pa.Array:
    return rows[LIFE]


def _left_out(row: Any) -> Any:
    names = row[LEFT_OUT]
    return None if names is None else msgspec.json.decode(names)


def _lists_left_out(rows: pa.RecordBatch) -> pa.Array:
    return lists_of_names(rows[LEFT_OUT])


class EnvelopedReader:
    """Makes dicts of the rows that envelopes are about, or record batches with the columns of ``schema``; with
    the columns that envelopes add.

    A row whose envelope says other types than those of ``expected`` is a bad record.
    """

    def __init__(self, schema: pa.Schema | None, expected: pa.Schema | None = None) -> None:
        self.schema = None if schema is None else pa.schema([*schema, *MARKS])
        self._expected = expected

    def made(self, part: Part) -> Iterator[MadeRows]:
        """The rows of a part, some at a time."""
        for texts, places, of_envelopes, skipped in ENVELOPES[part.file.format].marked(part, self._expected, placed=True):
            faults = [(places[n], fault) for n, fault in of_envelopes.items()]
            good = [n for n in range(len(texts)) if n not in of_envelopes]
            convert = _dicts if self.schema is None else partial(_batches, self.schema, ENVELOPES[part.file.format].bytes_text)
            elements, _, others = fitting(convert, [texts[n] for n in good], [places[n] for n in good])
            yield MadeRows(elements, len(texts), sorted([*faults, *others]), skipped)


def _dicts(texts: Sequence[bytes]) -> list[dict[str, Any]]:
    rows = [object_of(text) for text in texts]
    for row in rows:
        if isinstance(row, str):
            raise ValueError(row)
    return [row for row in rows if not isinstance(row, str)]


def _batches(schema: pa.Schema, bytes_text: BytesText, texts: Sequence[bytes]) -> list[pa.RecordBatch]:
    return [typed(texts, schema, bytes_text)] if texts else []


def key_of(names: list[str], *, in_columns: bool) -> Any:
    """The key of a row, from the names of its columns, which may be nested."""
    if not any("." in name for name in names):
        return names[0] if len(names) == 1 else names
    paths = [name.split(".") for name in names]
    return vectorized(partial(_nested_columns, paths)) if in_columns else partial(_nested_values, paths)


def _nested_values(paths: list[list[str]], row: Any) -> Any:
    key = tuple(reduce(lambda value, name: None if value is None else value.get(name), path, row) for path in paths)
    return key[0] if len(key) == 1 else None if None in key else key


def _nested_columns(paths: list[list[str]], rows: pa.RecordBatch) -> pa.Array:
    columns = [pc.struct_field(rows[path[0]], path[1:]) if path[1:] else rows[path[0]] for path in paths]
    if len(columns) == 1:
        return columns[0]
    missing = reduce(pc.or_, (column.is_null() for column in columns))
    return pa.StructArray.from_arrays(columns, names=[".".join(path) for path in paths], mask=missing)
