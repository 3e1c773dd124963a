"""The pipeline of a SQL file: public readers, views and writers of this library, and nothing else."""

import json
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from types import MappingProxyType
from typing import Any, Final, NamedTuple

import apache_beam as beam
import pyarrow as pa
from apache_beam.pvalue import PCollection

from beam_joins import View, io
from beam_joins.errors import InputError
from beam_joins.pipelines.base.input_error import NoFile
from beam_joins.pipelines.sql.sql_script import DeclaredColumn, DeclaredTable, DeclaredView, Statement
from beam_joins.pipelines.systems.inputs import InputAddress, input_at
from beam_joins.pipelines.systems.targets import TARGETS, target_at
from beam_joins.pipelines.yaml.options import options_of
from beam_joins.transforms.connect.tables import table_type
from beam_joins.views.sql_query import arrow_type, tables_of

_SOURCES: Final = "source = '...', or snapshots = '...' for whole exports"


class KeptRelation(NamedTuple):
    """A table or a view of a file in a pipeline; of a view the query, the plan, the columns that it reads, by relation, and where
    its changes go, which is empty where only others read it.
    """

    name: str
    table: PCollection[Any]
    query: str = ""
    plan: str = ""
    reads: Mapping[str, Sequence[str]] = MappingProxyType({})
    target: str = ""


def build(pipeline: beam.Pipeline, statements: Sequence[Statement]) -> list[KeptRelation]:
    """Apply the tables and views of a file to a pipeline; gives them, each behind those that it reads. Raises InputError with the
    line.
    """
    declared = {each.name: each for each in statements}
    views = [each for each in statements if isinstance(each, DeclaredView)]
    if not any("target" in each.options for each in views):
        raise InputError("no view has a target: write CREATE MATERIALIZED VIEW name WITH (target = '...') AS SELECT ...")
    made = dict[str, KeptRelation]()
    absent: NoFile | None = None
    for each in _needed(views, declared):
        try:
            with _at_line(each):
                if isinstance(each, DeclaredTable):
                    made[each.name] = KeptRelation(each.name, pipeline | each.name >> reader_of(each))
                elif absent is None:
                    made[each.name] = _kept(each, {name: made[name].table for name in _tables_of(each, declared)})
        except NoFile as error:  # the other tables look for their files in this round, too
            absent = absent or error
    if absent is not None:
        raise absent
    return [*made.values()]


def _needed(views: Sequence[DeclaredView], declared: Mapping[str, Statement]) -> Iterator[Statement]:
    """The relations that views with a target are made of, each behind those that it reads. Raises InputError."""
    seen = set[str]()

    def visited(each: Statement, path: tuple[str, ...]) -> Iterator[Statement]:
        if each.name in path:
            raise InputError(f"line {each.line}: the view {each.name!r} reads itself, through {', '.join(path[1:]) or 'itself'}")
        if each.name in seen:
            return
        seen.add(each.name)
        for name in _tables_of(each, declared) if isinstance(each, DeclaredView) else ():
            yield from visited(declared[name], (*path, each.name))
        yield each

    for view in views:
        if "target" in view.options:
            yield from visited(view, ())
    unread = [view for view in views if view.name not in seen]
    if unread:
        raise InputError(f"line {unread[0].line}: nobody reads the view {unread[0].name!r}: give it a target, or leave it out")


def _tables_of(view: DeclaredView, declared: Mapping[str, Statement]) -> list[str]:
    with _at_line(view):
        names = tables_of(view.query)
        if absent := [name for name in names if name not in declared]:
            raise ValueError(f"there is no table {absent[0]}; there are {', '.join(declared)}")
    return names


def _kept(view: DeclaredView, read: Mapping[str, PCollection[Any]]) -> KeptRelation:
    """Apply a view and its writer."""
    options = dict(view.options)
    key, target = options.pop("key", None), options.pop("target", None)
    transform = View(view.query, key=None if key is None else _names(key))
    table: PCollection[Any] = read | view.name >> transform
    if target is not None:
        _ = table | f"Write {view.name}" >> writer_of(target, options, table_type(table).key_names)
    elif options:
        raise ValueError(f"{next(iter(options))}: only a view with a target has options of a writer")
    to = "" if target is None else str(target)
    return KeptRelation(view.name, table, view.query, transform.explain(), transform.columns_read(), to)


def unread_columns(relations: Sequence[KeptRelation]) -> dict[str, list[str]]:
    """The columns of tables that no view reads, and that are not of the key, by table."""
    unread = dict[str, list[str]]()
    for each in relations:
        if not each.query:
            of_table = table_type(each.table)
            read = {*of_table.key_names, *(name for view in relations for name in view.reads.get(each.name, ()))}
            if names := [field.name for field in of_table.value_column if field.name not in read]:
                unread[each.name] = names
    return unread


def reader_of(table: DeclaredTable) -> beam.PTransform[Any, Any]:
    """The public reader of a table. Raises ``ValueError``."""
    options = dict(table.options)
    name, given = _input(table.name, options.pop("source", None), options.pop("snapshots", None), has_format="format" in options)
    of_table = dict[str, Any]()
    if table.key:
        of_table["key"] = table.key[0] if len(table.key) == 1 else list(table.key)
    if table.columns:
        of_table["schema"] = pa.schema([_field(column) for column in table.columns])
    elif name == "ReadChangelog":
        of_table["schema"] = "inferred"
    return _made(name, given | of_table, options)


def _input(table: str, source: Any, snapshots: Any, *, has_format: bool) -> InputAddress:
    if (source is None) == (snapshots is None):
        raise ValueError(f"give the table {table!r} {_SOURCES}")
    if snapshots is not None:
        return InputAddress("ReadSnapshots", {"path": str(snapshots)})
    of_files = "ReadChangeEvents" if has_format else "ReadChangelog"
    return input_at(str(source)) or InputAddress(of_files, {"path": str(source)})


def writer_of(target: str, options: Mapping[str, Any], key: tuple[str, ...]) -> beam.PTransform[Any, Any]:
    """The public writer of a target, with the columns of the key. Raises ``ValueError``."""
    if not key:
        raise ValueError("the view has no columns that are its key: give key = '...', columns of it that are never null")
    names = key[0] if len(key) == 1 else list(key)
    if target.startswith(tuple(begin for kind in TARGETS for begin in kind.begins)):
        found = target_at("target", target)
        return _made(found.writer, {**found.address.options, "key": names}, options)
    try:
        return _made("WriteChangelog", {"path": target, "key": names}, options)
    except ValueError as error:
        if not str(error).startswith("path:"):
            raise
        raise ValueError(f"target{str(error).removeprefix('path')}") from None


def _made(name: str, given: Mapping[str, Any], options: Mapping[str, Any]) -> beam.PTransform[Any, Any]:
    """A public reader or writer with options as YAML has them. Raises ``ValueError``."""
    transform = io.loaded(name)
    known = options_of(transform)
    made = dict(given)
    for option, written in options.items():
        if option not in known or option in given:
            raise ValueError(f"{name} has no option {option}: choose among {', '.join(each for each in known if each not in given)}")
        made[option] = known[option].value(_value(option, written, known[option].form.type))
    built: beam.PTransform[Any, Any] = transform(**made)
    return built


def _value(option: str, written: Any, kind: Any) -> Any:
    """The value of an option: lists and maps are JSON, and a list of names may be written with commas."""
    if not isinstance(written, str) or kind is str:
        return written
    if written[:1] in ("{", "["):
        try:
            return json.loads(written)
        except json.JSONDecodeError as error:
            raise ValueError(f"{option}: {written} is not JSON: {error}") from None
    return _names(written) if kind == Sequence[str] else written


def _names(written: Any) -> Any:
    names = [name.strip() for name in str(written).split(",")]
    return names if len(names) > 1 else names[0]


def _field(column: DeclaredColumn) -> pa.Field:
    try:
        return pa.field(column.name, arrow_type(column.type), nullable=column.is_nullable)
    except ValueError as error:
        raise ValueError(f"the type {column.type}: {error}") from None


@contextmanager
def _at_line(statement: Statement) -> Iterator[None]:
    """Errors of the block say the line of a statement."""
    try:
        yield
    except ValueError as error:
        if str(error).startswith("line "):
            raise
        kind = type(error) if isinstance(error, InputError) else InputError
        raise kind(f"line {statement.line}: {statement.name}: {error}") from error
