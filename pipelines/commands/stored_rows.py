"""The rows of an input as the state of its runs has them, and the columns of the result in them once ``--select`` is another."""

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple, Self

import msgspec
import pyarrow as pa
import pyarrow.compute as pc

from beam_joins.errors import InputError
from beam_joins.pipelines.commands.select import Share
from beam_joins.pipelines.formats.changelog_columns import REFERENCE
from beam_joins.pipelines.formats.read_plan import COLUMNS, JSON, Form
from beam_joins.pipelines.formats.types.exact_json import object_text
from beam_joins.pipelines.formats.types.json_members import NULL, members_of

Select = Callable[[pa.RecordBatch], dict[str, pa.Array]]


class StoredRows(NamedTuple):
    """The rows of an input as the state has them, in these forms.

    ``columns`` are those of the records that are stored, with the names that they have there, ``None``: all as they come.
    ``has_all``: also each that records get later. No row has a column ``lacks``, and columns of ``numbers`` hold these or null.
    """

    columns: tuple[tuple[str, str], ...] | None
    has_all: bool
    forms: tuple[Form, ...]
    lacks: str | None = None
    numbers: tuple[str, ...] = ()

    @classmethod
    def of(cls, share: Share, forms: tuple[Form, ...], lacks: str | None, numbers: tuple[str, ...] = ()) -> Self:
        """The rows of an input that gives a share of the result, in its first run."""
        return cls(share.columns, share.columns is None or share.allowed is not None, forms, lacks, numbers)

    @classmethod
    def read(cls, stored: Sequence[Any]) -> Self:
        """The same of what JSON has of it."""
        columns, has_all, forms, lacks, numbers = stored
        pairs = None if columns is None else tuple((column, name) for column, name in columns)
        return cls(pairs, has_all, tuple(forms), lacks, tuple(numbers))

    def grown(self, share: Share, rows_have: Sequence[str]) -> Self:
        """The same with the columns that records have by now, under the names of the ``share`` if all others are there under
        them too.
        """
        if self.columns is None or not self.has_all:
            return self
        names, stored = {name for _, name in self.columns}, {column for column, _ in self.columns}
        new = [column for column in rows_have if column not in stored]
        shared = share.columns or ()
        if set(self.columns) <= set(shared) and {column for column, name in {*shared} - {*self.columns}} <= {*new}:
            return self._replace(columns=shared)
        added = list[tuple[str, str]]()
        for column in new:
            name = column
            while name in names:
                name += "_"
            names.add(name)
            added.append((column, name))
        return self._replace(columns=(*self.columns, *added))

    def select(self, share: Share, of: str, rows_have: Sequence[str], lacks: str | None, again: str) -> Select | None:
        """The function that makes the columns of a share of these rows, ``None`` where they are these columns.

        ``rows_have`` are the columns of the records by now, without those ``about`` the change. ``lacks`` is a column that rows
        must not have. Raises InputError for a column that is not stored.
        """
        if share.columns is None and self.columns is None:
            return None if lacks in (None, self.lacks) else _whole_rows(self.forms, lacks)
        wanted = [(column, column) for column in rows_have] if share.columns is None else share.columns
        columns = [(column, column) for column in rows_have] if self.columns is None else self.columns
        stored = {column: name for column, name in reversed(columns)}  # noqa: C416  # the first of several names
        absent = [column for column, _ in wanted if column not in stored]
        if absent or (share.columns is None and not self.has_all):
            without = f"without the column '{absent[0]}'" if absent else "with some of their columns"
            raise InputError(f"the {of} of the runs before are stored {without}: give {again}, which reads them again")
        pairs = tuple((stored[column], name) for column, name in wanted)
        if self.columns is not None and pairs == tuple((name, name) for _, name in self.columns):
            return None
        return _selected(self.forms, pairs)


def _selected(forms: Sequence[Form], pairs: Sequence[tuple[str, str]]) -> Select:
    """A function that gives the stored columns of pairs the names beside them."""

    def select(rows: pa.RecordBatch) -> dict[str, pa.Array]:
        made = _reference(rows)
        if JSON in forms:
            made[JSON] = _texts(rows[JSON], text)
        if COLUMNS in forms:
            structs = rows[COLUMNS]
            columns = [_field(structs, stored) for stored, _ in pairs]
            fields = [pa.field(name, column.type) for (_, name), column in zip(pairs, columns, strict=True)]
            made[COLUMNS] = pa.StructArray.from_arrays(columns, fields=fields, mask=structs.is_null())
        return made

    def text(members: dict[str, msgspec.Raw]) -> bytes:
        return object_text([name for _, name in pairs], [members.get(stored, NULL) for stored, _ in pairs])

    return select


def _whole_rows(forms: Sequence[Form], lacks: str | None) -> Select:
    """A function that gives the rows as they are. It raises InputError for a row that has a column."""

    def select(rows: pa.RecordBatch) -> dict[str, pa.Array]:
        if JSON in forms:
            _texts(rows[JSON], without)
        if COLUMNS in forms and rows.schema.field(COLUMNS).type.get_field_index(lacks) >= 0:
            without({str(lacks): NULL})
        return dict(zip(rows.schema.names, rows.columns, strict=True))

    def without(members: dict[str, msgspec.Raw]) -> bytes:
        if lacks in members:
            raise InputError(f"rows of the runs before have a column '{lacks}' already: give the other one another name")
        return b""

    return select


def _reference(rows: pa.RecordBatch) -> dict[str, pa.Array]:
    return {REFERENCE: rows[REFERENCE]} if REFERENCE in rows.schema.names else {}


def _texts(texts: pa.Array, made: Callable[[dict[str, msgspec.Raw]], bytes]) -> pa.Array:
    return pa.array([None if each is None else made(members_of(each)) for each in texts.to_pylist()], pa.binary())


def _field(structs: pa.Array, name: str) -> pa.Array:
    """A field of structs; nulls where none of them has it."""
    if structs.type.get_field_index(name) < 0:
        return pa.nulls(len(structs), pa.string())
    return pc.struct_field(structs, name)
