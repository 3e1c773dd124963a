"""A public transform: its options, as given, and its place in runs that go on."""

import inspect
from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, ClassVar, Self, TypeVar

import apache_beam as beam
from apache_beam.options.pipeline_options import TypeOptions
from apache_beam.pvalue import AsSideInput, PCollection, PValue

from beam_joins.functions.user_functions import require_returns, require_takes
from beam_joins.transforms.engine.construction.applied_transforms import collections_in
from beam_joins.transforms.engine.construction.fingerprints import displayed
from beam_joins.transforms.engine.construction.pipeline_changes import OF_TABLES, Rules
from beam_joins.transforms.engine.resumed_apply import continued
from beam_joins.transforms.engine.stages.replay_options import folder_for

_OF_RUN = {"broadcast", "without_earlier"}
"""Options on which no state depends, or which each run decides anew."""
_REMEDIES = {
    "DataFrame": ": a table of a pandas frame is beam.Create([pyarrow.Table.from_pandas(frame)]) | TableFromChangelog(key=...)",
    "DeferredDataFrame": ": apply apache_beam.dataframe.convert.to_pcollection",
}
"""What to do with values of some classes in place of collections."""
_CALLED_WITH = {
    **dict.fromkeys(("predicate", "fn", "group_by", "of", "foreign_key", "foreign_keys"), (2, "the key and the value")),
    **dict.fromkeys(("add", "subtract"), (2, "the aggregate and the value")),
    "shift": (1, "the window"),
}
"""The number of arguments of functions, by their options, and what they are."""


In = TypeVar("In")
Out = TypeVar("Out")


class Transform(beam.PTransform[In, Out]):
    """A public transform: it shows the options that it was given wherever a runner displays its steps.

    A subclass says by ``rules`` what becomes of its state where another pipeline goes on, and by ``table_stage`` which of its
    stages stores the rows of the table that it makes. ``streams`` is the number of its inputs, the first ones, that are no tables.
    ``called_with`` are the arguments of functions, by options. ``reader`` are the options of the reader that it is a part of, as
    far as its state depends on them.
    """

    rules: ClassVar[Rules] = OF_TABLES
    table_stage: ClassVar[str | None] = None
    streams: ClassVar[int] = 0
    called_with: ClassVar[Mapping[str, tuple[int, str]]] = _CALLED_WITH
    reader: Mapping[str, Any] = MappingProxyType({})

    if TYPE_CHECKING:  # Beam's own operators have no types, so that what (left, right) | join gives would not be known

        def __ror__(self, left: In, label: str | None = None) -> Out: ...

        def __rrshift__(self, label: str) -> "Transform[In, Out]": ...

    else:
        __pandas_priority__ = 1 << 20  # else frame | transform is an operation of each value

        def __ror__(self, left: Any, label: str | None = None) -> Any:
            """Apply the transform to several collections; raises ``ValueError`` where one of them is none."""
            for each in left.values() if isinstance(left, dict) else left if isinstance(left, tuple) else [left]:
                if not isinstance(each, PValue | list | tuple | dict):
                    kind = type(each).__name__
                    raise ValueError(f"{type(self).__name__} takes PCollections, not {kind}{_REMEDIES.get(kind, '')}")
            return super().__ror__(left, label)

    _options: dict[str, Any]

    def __new__(cls, *args: Any, **options: Any) -> Self:
        """Take note of the options as given; raises ``ValueError`` for a function that is a generator or a coroutine, and for a
        side input.
        """
        made = super().__new__(cls)
        positional = list(inspect.signature(cls.__init__).parameters)[1:]
        if any(isinstance(value, PValue | AsSideInput) for value in (*args, *options.values())):
            raise ValueError(
                f"{cls.__name__} takes no side inputs: join a table with another one (TableTableJoin, ForeignKeyJoin), or give its "
                "functions values with functools.partial"
            )
        made._options = {**dict(zip(positional, args, strict=False)), **options}
        for name, value in made._options.items():
            require_returns(name, value)
            if called_with := cls.called_with.get(name):
                require_takes(name, value, *called_with)
        return made

    def display_data(self) -> dict[str, Any]:
        """The options as given, functions by their names."""
        return {name: displayed(value) for name, value in self._options.items() if value is not None}

    def expand(self, pvalue: Any) -> Any:
        """Apply the transform."""
        try:
            return self._applied(pvalue)
        except ValueError as error:
            first = next(iter(collections_in(pvalue)), None)
            if not isinstance(first, PCollection) or first.pipeline.options.view_as(TypeOptions).pipeline_type_check:
                raise
            raise ValueError(f"{error} (--no_pipeline_type_check hides the types of collections: leave it out)") from error

    def _applied(self, pvalue: Any) -> Any:
        collections = [each for each in collections_in(pvalue) if isinstance(each, PCollection)]
        folder = folder_for(collections[0]) if collections else None
        if folder is None or len(collections) < len(collections_in(pvalue)):
            return self.outputs_of(pvalue)
        return continued(self, pvalue, folder)

    def options_of_state(self, inputs: Sequence[PCollection[Any]]) -> dict[str, Any]:
        """The options on which the state depends where it has these inputs."""
        return {name: value for name, value in self._options.items() if name not in _OF_RUN}

    def tables_among(self, inputs: list[PCollection[Any]]) -> list[PCollection[Any]]:
        """The inputs that are tables."""
        return inputs[self.streams :]

    def rules_for(self, inputs: list[PCollection[Any]]) -> Rules:
        """The verdicts on changes of this transform where it has these inputs."""
        return self.rules

    def outputs_of(self, pvalue: Any) -> Any:
        """The outputs for the inputs."""
        raise NotImplementedError
