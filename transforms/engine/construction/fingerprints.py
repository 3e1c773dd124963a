"""The label of a transform that is being applied, and the properties of it that must be equal in every run of a folder."""

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import fields, is_dataclass
from functools import partial
from types import MappingProxyType
from typing import Any

import pyarrow as pa
from apache_beam.pipeline import Pipeline
from apache_beam.pvalue import PCollection

from beam_joins.coders.key import type_name
from beam_joins.functions.earlier_function_versions import earlier_function_version
from beam_joins.functions.function_versions import function_version
from beam_joins.functions.marked_functions import displayed_name, vectorized, with_key
from beam_joins.transforms.engine.construction.arrow_input import arrow_schema, is_arrow
from beam_joins.transforms.engine.construction.element_types import pair_types
from beam_joins.transforms.engine.construction.pipeline_changes import Fingerprint
from beam_joins.transforms.engine.construction.table_type import TableType, is_table, physical_of, table_type

_ADDRESS = re.compile(r" at 0x[0-9a-f]+")


def fingerprint(
    kind: str,
    options: Mapping[str, Any],
    inputs: Sequence[PCollection[Any]],
    upstream: Sequence[Sequence[str]],
    before: Fingerprint | None = None,
    reader: Mapping[str, Any] = MappingProxyType({}),
) -> Fingerprint:
    """The properties of a transform of this class: its options as given, the columns of its inputs, and the labels of the
    transforms that made these; also what can be compared with those ``before``, which an earlier version may have written, and
    the options of the ``reader`` that it is a part of.
    """
    shown = {name: displayed(value) for name, value in options.items() if value is not None}
    made: Fingerprint = {"transform": kind, "options": shown, "values": _versions(function_version, options)}
    if before is not None and "values" not in before:
        made["functions"] = _versions(earlier_function_version, options)
    if reader:
        made["reader"] = dict(reader)
    return {**made, "inputs": list(map(_columns, inputs)), "upstream": list(map(list, upstream))}


def _versions(version_of: Callable[[Any], str | None], options: Mapping[str, Any]) -> dict[str, str]:
    return {name: version for name, value in options.items() if (version := version_of(value)) is not None}


def displayed(value: Any) -> Any:
    """An option as a runner displays it, functions by their names, and those of this library by the names that they are given."""
    if (name := displayed_name(value)) is not None:
        return name
    if isinstance(value, vectorized | with_key):
        return f"{type(value).__name__}({displayed(value.function)})"
    if isinstance(value, str | int | float | bool):
        return value
    return _text(value)


def _text(value: Any) -> str:
    """The ``repr`` of a value, the same in each process: sets in order, functions by their names, at any depth."""
    if isinstance(value, partial):
        options = (f"{name}={_text(each)}" for name, each in value.keywords.items())
        return f"partial({', '.join([_text(value.func), *map(_text, value.args), *options])})"
    if isinstance(value, list | set | frozenset):
        texts = list(map(_text, value))
        return f"[{', '.join(texts if isinstance(value, list) else sorted(texts))}]"
    if isinstance(value, dict):
        return f"{{{', '.join(f'{_text(name)}: {_text(each)}' for name, each in value.items())}}}"
    if (names := _fields(value)) is not None:
        return f"{type(value).__name__}({', '.join(f'{name}={_text(getattr(value, name))}' for name in names)})"
    if isinstance(value, tuple):
        return f"({', '.join(map(_text, value))}{',' if len(value) == 1 else ''})"
    return getattr(value, "__qualname__", None) or _ADDRESS.sub("", repr(value))


def _fields(value: Any) -> Sequence[str] | None:
    """The names of the fields of a dataclass or a NamedTuple."""
    if is_dataclass(value) and not isinstance(value, type):
        return [field.name for field in fields(value) if field.repr]
    return getattr(value, "_fields", None) if isinstance(value, tuple) else None


def label_of(pipeline: Pipeline) -> str:
    """The full label of the transform that is being applied: unique in a pipeline, and the same at every submission.

    Beam shows it to nobody else: this relies on ``Pipeline._current_transform``, in Beam 2.66 to 2.77.
    """
    return str(pipeline._current_transform().full_label)


def _columns(pcoll: PCollection[Any]) -> dict[str, str]:
    schema = arrow_schema(pcoll) if is_arrow(pcoll) else None
    if schema is not None:
        return {name: str(kind) for name, kind in zip(schema.names, schema.types, strict=True)}
    of_table = table_type(pcoll) if is_table(pcoll) else TableType(*pair_types(pcoll.element_type))
    columns = {"key": str(of_table.key_column), "value": str(of_table.value_column), "order": of_table.order}
    columns["form"] = "checked" if physical_of(pcoll).is_in("checked") else "unchecked"
    return columns if isinstance(of_table.key, pa.DataType) else {**columns, "key coder": type_name(of_table.key)}
