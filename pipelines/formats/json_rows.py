"""Makes columns of rows that are JSON texts: typed ones, or columns of JSON with the digits of the texts."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

import pyarrow as pa
import pyarrow.compute as pc

from beam_joins.errors import InputError
from beam_joins.pipelines.formats.changelog_columns import shown
from beam_joins.pipelines.formats.record_batch_parser import long_members, structs_of
from beam_joins.pipelines.formats.types.exact_json import BytesText, loads
from beam_joins.pipelines.formats.types.json_members import columns_of_members, other_member
from beam_joins.pipelines.formats.types.json_text import json_column
from beam_joins.pipelines.formats.types.postgres_types import json_texts
from beam_joins.pipelines.formats.types.typed_texts import require_double, typed


class RowColumns(NamedTuple):
    """Columns of rows and their types: of the row itself, or of a row within it that is called ``nested``; bytes are text
    in ``bytes_text``.
    """

    types: pa.Schema
    nested: str = ""
    bytes_text: BytesText = "base64"


@dataclass(frozen=True)
class JsonRows:
    """The columns of rows that are JSON texts.

    ``remedy`` is what a sentence on a row with other columns or with values of other types ends with; ``are_stored``: there
    are rows of earlier runs, which may have others.

    >>> rows = JsonRows((RowColumns(pa.schema({"id": pa.int64(), "n": pa.float64()})),), "give --read-again orders")
    >>> texts = pa.array([b'{"id":7,"n":1.50}', None])
    >>> rows.in_types(texts).to_pylist(), rows.in_json(texts).to_pylist()
    ([{'id': 7, 'n': 1.5}, None], [{'id': '7', 'n': '1.50'}, None])
    """

    columns: tuple[RowColumns, ...]
    remedy: str
    are_stored: bool = False

    def in_types(self, texts: pa.Array) -> pa.StructArray:
        """The rows in typed columns, null where a text is. Raises InputError for a row that does not fit."""
        present = texts.drop_null()
        try:
            rows = self._typed(present)
        except ValueError:
            rows = pa.concat_arrays([self._typed_alone(text) for text in present.to_pylist()])
        return rows if not texts.null_count else rows.take(_places(texts))

    def in_json(self, texts: pa.Array) -> pa.StructArray:
        """The rows in columns of JSON, null where a text is. Raises InputError for a row with other columns."""
        present = texts.drop_null()
        self._require_known(present.to_pylist())
        members = columns_of_members(present.to_pylist(), self._names)
        rows = pa.StructArray.from_arrays([json_column(texts) for texts in members.values()], names=list(members))
        return rows if not texts.null_count else rows.take(_places(texts))

    def _typed(self, texts: pa.Array) -> pa.StructArray:
        nested_rows = [nested for _, nested, _ in self.columns if nested]
        members = columns_of_members(texts.to_pylist(), nested_rows) if nested_rows else {}
        if self.are_stored:
            self._require_known(texts.to_pylist())
        arrays, fields = list[pa.Array](), list[pa.Field]()
        for types, nested, bytes_text in self.columns:
            if not nested:
                arrays += _exact(texts, types, bytes_text).flatten()
                fields += types
                continue
            within = members[nested]
            rows = _exact(within.drop_null(), types, bytes_text).take(_places(within))
            arrays.append(rows)
            fields.append(pa.field(nested, rows.type))
        return structs_of(arrays, pa.schema(fields), len(texts))

    def _typed_alone(self, text: bytes) -> pa.StructArray:
        try:
            return self._typed(pa.array([text], pa.binary()))
        except ValueError as error:
            if isinstance(error, InputError):
                raise
            raise InputError(f"a row of the runs before, {shown(text.decode())}: {error}: {self.remedy}") from error

    @property
    def _names(self) -> list[str]:
        return [name for types, nested, _ in self.columns for name in ([nested] if nested else types.names)]

    def _require_known(self, texts: Sequence[bytes]) -> None:
        """Raise InputError for a row with other columns."""
        unknown = other_member(texts, self._names)
        if unknown is not None:
            raise InputError(f"rows of the runs before have a column '{unknown}', whose type is not known: {self.remedy}")


def with_numbers(rows: pa.StructArray, paths: Sequence[tuple[str, ...]]) -> pa.StructArray:
    """The rows, whose texts of numbers in the columns at these paths are JSON: numbers, with their digits.

    >>> rows = pa.array([{"n": "1.50", "within": {"n": "NaN"}}])
    >>> with_numbers(rows, [("n",), ("within", "n")]).to_pylist()
    [{'n': '1.50', 'within': {'n': '"NaN"'}}]
    """
    if not paths:
        return rows
    columns = dict(zip([field.name for field in rows.type], rows.flatten(), strict=True))
    for name in dict.fromkeys(name for name, *_ in paths):
        within = [rest for first, *rest in paths if first == name and rest]
        column = columns[name]
        columns[name] = with_numbers(column, [(*rest,) for rest in within]) if within else json_column(json_texts(column, "numbers"))
    return pa.StructArray.from_arrays(list(columns.values()), names=list(columns), mask=rows.is_null())


def _exact(texts: pa.Array, types: pa.Schema, bytes_text: BytesText) -> pa.StructArray:
    """The rows in typed columns. Raises ValueError, a sentence, for a value that does not fit."""
    doubles = [field.name for field in types if pa.types.is_floating(field.type)]
    if doubles and len(texts):
        long = texts.filter(pc.match_substring_regex(texts, long_members(doubles)))
        for row in map(loads, long.to_pylist()):
            for name in doubles:
                require_double(name, row.get(name))
    rows = typed(texts, types, bytes_text) if len(types) and len(texts) else types.empty_table().combine_chunks()
    return structs_of(
        [column.combine_chunks() if isinstance(column, pa.ChunkedArray) else column for column in rows.columns], types, len(texts)
    )


def _places(texts: pa.Array) -> pa.Array:
    """The place of each row among those that are not null."""
    valid = texts.is_valid()
    return pc.if_else(valid, pc.subtract(pc.cumulative_sum(valid.cast(pa.int64())), 1), pa.scalar(None, pa.int64()))
