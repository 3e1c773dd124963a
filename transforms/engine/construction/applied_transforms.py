"""The public transforms that have been applied in a pipeline, and the one that made a collection."""

from collections.abc import Callable, Collection
from typing import Any, NamedTuple

from apache_beam.pipeline import AppliedPTransform, Pipeline
from apache_beam.pvalue import PCollection

_PUBLIC = "_beam_joins_public_transforms"


class Applied(NamedTuple):
    """A public transform as it was applied: to which inputs, and the name of its stage whose state has the rows of the table
    that it makes, ``None`` if there is none.
    """

    transform: Any
    inputs: Any
    table_stage: str | None


def public_transforms(pipeline: Pipeline) -> dict[str, Applied]:
    """The public transforms of a pipeline that goes on from earlier runs, by their full labels; more may be added."""
    public: dict[str, Applied] | None = getattr(pipeline, _PUBLIC, None)
    if public is None:
        public = {}
        setattr(pipeline, _PUBLIC, public)
    return public


def collections_in(inputs: Any) -> list[PCollection[Any]]:
    """The collections among the inputs of a transform, in order."""
    several = inputs.values() if isinstance(inputs, dict) else inputs if isinstance(inputs, tuple | list) else None
    return [inputs] if several is None else [each for part in several for each in collections_in(part)]


def with_each(inputs: Any, of_each: Callable[[PCollection[Any]], PCollection[Any]]) -> Any:
    """The inputs of a transform, each collection replaced by another."""
    if isinstance(inputs, dict):
        return {name: with_each(each, of_each) for name, each in inputs.items()}
    if isinstance(inputs, tuple | list):
        return tuple(with_each(each, of_each) for each in inputs)
    return of_each(inputs)


def producer_of(pcoll: PCollection[Any], public: Collection[str]) -> AppliedPTransform:
    """The transform that made a collection, outside those that are being applied: the outermost of those with a ``public``
    label, or else the outermost that has none of them within it.
    """
    inside = {id(each) for each in pcoll.pipeline.transforms_stack}
    made = pcoll.producer
    assert made is not None
    above = [made]
    while above[-1].parent is not None and id(above[-1].parent) not in inside:
        above.append(above[-1].parent)
    return next(
        (each for each in reversed(above) if each.full_label in public),
        next((each for each in reversed(above) if not any(label.startswith(f"{each.full_label}/") for label in public)), made),
    )


def main_inputs(applied: AppliedPTransform) -> list[PCollection[Any]]:
    """The collections that a transform was applied to, without side inputs."""
    return [each for each in applied.inputs if isinstance(each, PCollection)]


def nearest_upstream(pcoll: PCollection[Any], public: Collection[str]) -> list[str]:
    """The ``public`` labels of the nearest transforms that a collection is made of."""
    producer = producer_of(pcoll, public)
    if producer.full_label in public:
        return [producer.full_label]
    above = [*main_inputs(producer), *(side.pvalue for side in producer.side_inputs)]
    return sorted({label for each in above if isinstance(each, PCollection) for label in nearest_upstream(each, public)})
