"""The transforms of ``providers.yaml``: each name is a function that makes the public PTransform of that name.

Beam YAML calls the function with the entries of ``config``, and reads its signature and docstring, which are made from
those of the class.
"""

import inspect
from collections.abc import Callable, Mapping
from functools import partial
from typing import Any, Final, Optional

import apache_beam as beam
import pyarrow as pa
from apache_beam.pvalue import PBegin, PCollection

import beam_joins
from beam_joins import io
from beam_joins.pipelines.yaml import beam_rows
from beam_joins.pipelines.yaml.expression import Expression, Expressions, PairExpression
from beam_joins.pipelines.yaml.options import YamlForm, YamlOption, options_of, summary
from beam_joins.transforms.connect.tables import arrow_schema, is_batches, table_type

_OF_STREAM: Final = ("StreamTableJoin", "StreamForeignKeyJoin")
"""The joins whose inputs are ``stream`` and ``table``."""
_TAKE_ROWS: Final = ("TableFromChangelog", "WindowedStreamJoin", "WriteParquet")
"""The transforms that take no tables."""
_QUOTES: Final = " (YAML reads on, off, yes and no without quotes as truth values: write a name in quotes)"
_ERROR_HANDLING: Final = YamlOption(
    "error_handling",
    "with `output`, the name of a further output: the records that are not in the result, bad ones too, as rows of"
    " `reason`, `record` (JSON) and `timestamp` (microseconds).",
    YamlForm(Mapping[str, str]),
)


def __getattr__(name: str) -> Callable[..., beam.PTransform[Any, Any]]:
    if name in beam_joins.__all__:
        return provided(getattr(beam_joins, name))
    if name in io.__all__:
        try:
            return provided(io.loaded(name))
        except ImportError as error:  # of an extra, which no pipeline without this transform needs
            return partial(_refused, error)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def _refused(error: ImportError, **config: Any) -> beam.PTransform[Any, Any]:
    raise error


def provided(transform: type[beam.PTransform[Any, Any]]) -> Callable[..., beam.PTransform[Any, Any]]:
    """The function that makes a transform from the entries of ``config``."""
    name, options = transform.__name__, options_of(transform)
    if hasattr(transform, "with_outputs"):
        options["error_handling"] = _ERROR_HANDLING

    def make(**config: Any) -> beam.PTransform[Any, Any]:
        return _Provided(transform, options, config)

    made: Any = make
    made.__name__, made.__signature__ = name, inspect.Signature([_parameter(option) for option in options.values()])
    texts = (f"  {option.name}: {option.help}" for option in options.values())
    made.__doc__ = "\n".join([summary(transform), "", "Args:", *texts])
    return make


def _parameter(option: YamlOption) -> inspect.Parameter:
    kind = option.form.type if option.is_required else Optional[option.form.type]  # noqa: UP045 (Beam reads this)
    return inspect.Parameter(option.name, inspect.Parameter.KEYWORD_ONLY, default=option.default, annotation=kind)


def _has_truths(written: Any) -> bool:
    """Whether an option has a truth value, also as the name of a column."""
    if isinstance(written, Mapping):
        return any(map(_has_truths, (*written, *written.values())))
    return any(map(_has_truths, written)) if isinstance(written, list) else isinstance(written, bool)


class _Provided(beam.PTransform[Any, Any]):
    """A public transform that takes and gives rows of Beam where it takes and gives others than tables."""

    def __init__(
        self, transform: type[beam.PTransform[Any, Any]], options: Mapping[str, YamlOption], config: Mapping[str, Any]
    ) -> None:
        """Raises ``ValueError`` for a wrong option."""
        super().__init__()
        self._name = transform.__name__
        if wrong := [name for name in config if name not in options]:
            raise ValueError(f"{self._name} has no option {wrong[0]}: choose among {', '.join(options) or 'none'}")
        if missing := [each.name for each in options.values() if each.is_required and each.name not in config]:
            raise ValueError(f"{self._name} needs {', '.join(missing)}")
        try:
            self._options = {name: options[name].value(written) for name, written in config.items()}
            made: Any = self._made(transform, options)
        except ValueError as error:
            texts = [name for name, written in config.items() if _has_truths(written) and options[name].form.type is not bool]
            raise ValueError(f"{error}{_QUOTES if texts else ''}") from error
        self._transform = made if self._errors is None else made.with_outputs()

    def _made(self, transform: type[beam.PTransform[Any, Any]], options: Mapping[str, YamlOption]) -> Any:
        self._errors = (self._options.pop("error_handling", None) or {}).get("output")
        if self._errors is not None and "on_bad_record" in options:
            self._options.setdefault("on_bad_record", "drop")
        return transform(**self._options)

    def expand(self, pcolls: Any) -> Any:
        """Apply the transform."""
        outputs = self._inputs(pcolls) | self._transform
        if self._errors is None:
            return outputs if isinstance(outputs, dict) else self._output(outputs)
        others = [outputs[n] for n, name in enumerate(outputs._fields) if name in ("dropped", "late", "bad_records")]
        return {"good": self._output(outputs[0]), self._errors: beam_rows.dropped_rows(others)}

    def _inputs(self, pcolls: Any) -> Any:
        if isinstance(pcolls, PBegin):
            return pcolls
        if self._name == "View" and isinstance(pcolls, Mapping):
            return {name: self._input(name, pcoll) for name, pcoll in pcolls.items()}
        if not self._name.endswith("Join") and self._name != "UnionTables":
            return self._input("", pcolls)
        sides = ("stream", "table") if self._name in _OF_STREAM else self._options.get("tables", ("left", "right"))
        if not isinstance(pcolls, Mapping) or {*pcolls} != {*sides}:
            raise ValueError(f"give the inputs names: input: {{{', '.join(f'{side}: NAME' for side in sides)}}}")
        return tuple(self._input(side, pcolls[side]) for side in sides)

    def _input(self, side: str, pcoll: Any) -> Any:
        """A table as it is, or rows as batches of columns. Raises ``ValueError`` for an input that the transform does
        not take.
        """
        if not isinstance(pcoll, PCollection):
            raise ValueError(f"{self._name} takes one input")
        takes_rows, is_table = self._name in _TAKE_ROWS or side == "stream", is_batches(pcoll)
        if takes_rows and is_table:
            raise ValueError(f"{self._name} takes rows{f' as {side}' if side else ''}, not a table: apply TableToRows to it")
        if not takes_rows and not is_table:
            raise ValueError(
                f"{self._name} takes a table{f' as {side}' if side else ''}, not rows: make a table of them with TableFromChangelog"
            )
        if takes_rows:
            return beam_rows.as_columns(pcoll, side)
        value = table_type(pcoll).value
        for function in self._options.values():
            if isinstance(function, Expression | Expressions | PairExpression) and isinstance(value, pa.DataType):
                function.require([field.name for field in value] if pa.types.is_struct(value) else ["value"], side)
        return pcoll

    def _output(self, pcoll: Any) -> Any:
        """The results of a join of streams as rows; tables, and the outputs of writers, are as they are."""
        schema = arrow_schema(pcoll) if isinstance(pcoll, PCollection) else None
        return pcoll if schema is None else beam_rows.result_rows(pcoll, schema, self._options.get("key"))
