"""The rows of a job's result: the types of their columns, and how each output writes them."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property, partial
from typing import Any, ClassVar

import pyarrow as pa
import pyarrow.compute as pc

from beam_joins.errors import InputError
from beam_joins.pipelines.commands.job import Job
from beam_joins.pipelines.formats.json_rows import JsonRows, RowColumns, with_numbers
from beam_joins.pipelines.formats.output_records import ChangeRecords, Made, TableRecords, TextRecords
from beam_joins.pipelines.formats.read_plan import COLUMNS, JSON, ReadPlan
from beam_joins.pipelines.formats.registry import file_format, format_of
from beam_joins.pipelines.formats.types.json_text import iso_json
from beam_joins.pipelines.formats.types.target_types import json_lines_type, parquet_type
from beam_joins.pipelines.results.output_files import Output
from beam_joins.transforms.connect.tables import PlainRows, TableType
from beam_joins.values.arrow_types import is_text

_json_texts = partial(pc.struct_field, indices=JSON)
_typed_columns = partial(pc.struct_field, indices=COLUMNS)


@dataclass(frozen=True)
class _Steps:
    """Applies functions, one to what the one before gives."""

    steps: tuple[Callable[[Any], Any], ...]

    def __call__(self, values: Any) -> Any:
        for step in self.steps:
            values = step(values)
        return values


@dataclass(frozen=True)
class ResultRows:
    """The rows of a job's result."""

    job: Job
    in_texts: ClassVar[bool] = True
    """Whether the rows are in the forms in which records are read, texts among them."""

    @cached_property
    def table_type(self) -> TableType:
        """The types of the keys and the rows, in typed columns. Raises InputError."""
        job, fields = self.job, list[pa.Field]()
        for types, nested, _ in self._columns:
            fields += [pa.field(nested, pa.struct(list(types)))] if nested else list(types)
        keys = [
            ReadPlan(columns=changelog.columns, key=kinds, key_names=job.key_columns(side)).key_type
            for side, (changelog, kinds) in enumerate(zip(job.changelogs, job.kinds(), strict=True))
        ]
        key = pa.struct([("foreign_key", keys[1]), ("primary_key", keys[0])]) if job.has_combined_keys else keys[0]
        return TableType(key, pa.struct(fields))

    @cached_property
    def _columns(self) -> tuple[RowColumns, ...]:
        """The columns of the parts of a row."""
        job = self.job
        return tuple(
            RowColumns(job.typed(side, share.columns), share.nested, job.changelogs[side].bytes_text)
            for side, share in job.shares.items()
        )

    def numbers(self, side: int) -> list[str]:
        """The columns of a changelog in the result that are texts of numbers, as a database without a scale for them has these."""
        table = self.job.changelogs[side].table
        if table is None:
            return []
        types = self.job.types(side)
        names = self.job.shares[side].columns or [(name, name) for name in types.names]
        return [
            name
            for column, name in names
            if table.types.get(column, "").startswith("numeric") and column in types.names and is_text(types.field(column).type)
        ]

    @cached_property
    def _with_numbers(self) -> Callable[[pa.StructArray], pa.StructArray]:
        """Gives rows whose texts of numbers are JSON."""
        nested = {side: (share.nested,) if share.nested else () for side, share in self.job.shares.items()}
        return partial(with_numbers, paths=[(*within, name) for side, within in nested.items() for name in self.numbers(side)])

    def plain_rows(self, option: str, as_: Made, *, in_json: bool = False, of_texts: bool = False) -> PlainRows:
        """The columns of rows that are written as upserts, pairs and so on, ``in_json`` lines; ``of_texts``: they are columns
        of JSON. Raises InputError for columns that no file holds.
        """
        self._require_apart_from_key(option, as_)
        of_table = self.table_type
        if of_texts:
            of_table = of_table._replace(value=pa.struct([(field.name, pa.json_(pa.string())) for field in of_table.value]))
        elif in_json and as_ == "upserts":
            of_table = of_table._replace(value=self._with_numbers(pa.nulls(0, of_table.value)).type)
        has_key, key = as_ in ("upserts", "pairs"), None if self.job.has_combined_keys else self.job.key_names()
        return self._in_columns(option, of_table, as_, key if has_key else None, in_json=in_json, without_key=not has_key)

    @staticmethod
    def _in_columns(
        option: str, of_table: TableType, as_: Made, key: Sequence[str] | None, *, in_json: bool, without_key: bool = False
    ) -> PlainRows:
        stored = json_lines_type if in_json and as_ != "pairs" else parquet_type
        try:
            return PlainRows(option, of_table, key, stored=stored, without_key=without_key)
        except ValueError as error:
            raise InputError(f"{option}: {str(error).removeprefix(f'{option}: ')}") from error

    def _require_apart_from_key(self, option: str, as_: Made) -> None:
        """Raise InputError for another column of the result with the name of one of the key, which takes its place."""
        if as_ in ("changes", "rows"):
            return
        job = self.job
        if job.has_combined_keys:
            of_key: dict[str, set[tuple[int, str]]] = {"foreign_key": set(), "primary_key": set()}
        else:
            keys = [each.columns.key for each in job.changelogs[: 1 if job.foreign_key else 2]]
            of_key = {name: set(enumerate(columns)) for name, *columns in zip(job.key_names(), *keys, strict=True)}
        for side, share in job.shares.items():
            taken = share.columns if share.columns is not None else [(name, name) for name in job.types(side).names]
            for column, name in [("", share.nested)] if share.nested else taken:
                if name in of_key and (side, column) not in of_key[name]:
                    raise InputError(f"{option}: '{name}' is a column of the key and another one of the result: {job.spec.rename}")

    def output(self, name: str, option: str, path: str, as_: Made, owner: str = "", *, records: TableRecords | None = None) -> Output:
        """An output of an option, whose suffix says its format, if its ``records`` do not. Raises InputError for a column that the
        format does not take.
        """
        format_ = format_of(option, path).name
        made = partial(Output, name, path, owner=owner, in_parts=self.job.in_parts and as_ != "table")
        if records is not None:
            return made(records, row=self.typed) if self.in_texts else made(records)
        of_json, has_texts = file_format(format_).of_json, JSON in self.job.result_forms
        if of_json and as_ in ("changes", "rows") and self.in_texts:
            row = _json_texts if has_texts else _Steps((_typed_columns, self._with_numbers, iso_json))
            return made(TextRecords(of_finals=as_ == "rows"), row=row)
        of_texts = has_texts and of_json and as_ == "upserts" and self.in_texts
        try:
            records = ChangeRecords(self.plain_rows(option, as_, in_json=of_json, of_texts=of_texts), as_, format_)
        except InputError:
            raise
        except ValueError as error:
            raise InputError(f"{option}: {path}: {error}") from error
        if not self.in_texts:
            return made(records)
        if of_texts:
            return made(records, row=_Steps((_json_texts, self._json_rows.in_json)))
        with_numbers_in_json = of_json and as_ == "upserts" and not has_texts
        return made(records, row=_Steps((self.typed, self._with_numbers)) if with_numbers_in_json else self.typed)

    @property
    def typed(self) -> Callable[[pa.StructArray], pa.StructArray]:
        """Gives the rows of values in typed columns; it raises InputError for a row of earlier runs that does not fit."""
        return _Steps((_json_texts, self._json_rows.in_types)) if JSON in self.job.result_forms else _typed_columns

    @property
    def _json_rows(self) -> JsonRows:
        remedy = f"give {self.job.all_again()}, which reads the rows again"
        return JsonRows(self._columns, remedy, are_stored=any(self.job.stored or ()))
