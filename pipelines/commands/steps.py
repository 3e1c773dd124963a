"""The labelled steps of a pipeline, and the edges between them."""

from typing import NamedTuple

import apache_beam as beam


class Step(NamedTuple):
    """A step and those whose outputs it takes, by name."""

    name: str
    takes: tuple[str, ...]


def steps_of(pipeline: beam.Pipeline) -> tuple[Step, ...]:
    """The outermost transforms of a pipeline, each behind those that it takes from.

    >>> pipeline = beam.Pipeline()
    >>> _ = pipeline | "Numbers" >> beam.Create([1, 2]) | "Doubled" >> beam.Map(lambda number: 2 * number)
    >>> steps_of(pipeline)
    (Step(name='Numbers', takes=()), Step(name='Doubled', takes=('Numbers',)))
    """
    root = pipeline.transforms_stack[0]
    return tuple(
        Step(
            part.full_label,
            tuple(dict.fromkeys(source.producer.full_label.split("/")[0] for source in part.inputs if source.producer is not None)),
        )
        for part in root.parts
    )
