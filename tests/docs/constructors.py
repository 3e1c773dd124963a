"""The constructors of all transforms, readers and writers, as the documentation shows them side by side."""

import inspect
from typing import Any, Literal, NamedTuple, get_args, get_origin, get_type_hints

import apache_beam as beam

import beam_joins
import beam_joins.io


class Constructor(NamedTuple):
    """What a transform takes and gives; each of several names is in backquotes, with commas between them."""

    transform: str
    first: str
    how: str
    options: str
    outputs: str


def constructors() -> list[Constructor]:
    """One for each public transform, by name."""
    public = [getattr(beam_joins, name) for name in beam_joins.__all__]
    return [_constructor(each) for each in public if isinstance(each, type) and issubclass(each, beam.PTransform)]


def readers_and_writers() -> list[list[str]]:
    """Name, first arguments and options of each, by name."""
    made = [_constructor(getattr(beam_joins.io, name)) for name in sorted(beam_joins.io.__all__)]
    return [[each.transform, each.first, each.options] for each in made]


def _constructor(transform: Any) -> Constructor:
    parameters = [p for p in list(inspect.signature(transform.__init__).parameters.values())[1:] if p.name != "label"]
    first = [p.name for p in parameters if p.kind is p.POSITIONAL_OR_KEYWORD]
    options = [p.name for p in parameters if p.kind is p.KEYWORD_ONLY and p.name != "how"]
    how = [p for p in parameters if p.name == "how"]
    kinds = get_args(get_type_hints(transform.__init__)["how"]) if how else ()
    choices = next((get_args(kind) for kind in kinds if get_origin(kind) is Literal), kinds)  # one for all, of several
    assert all(p.default == choices[0] for p in how), f"{transform.__name__}: the default is not the first choice"
    columns = ([transform.__name__], first, choices, options, transform.outputs[0]._fields if hasattr(transform, "outputs") else ())
    return Constructor(*(", ".join(f"`{name}`" for name in names) for names in columns))
