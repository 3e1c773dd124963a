"""A figure that a run brings home for its report: what it is of, and its content as JSON."""

from typing import Any, Final, NamedTuple

TIMES: Final = "times"
REFERENCES: Final = "references"
SAMPLE: Final = "sample"


class Figure(NamedTuple):
    """One of :data:`TIMES`, :data:`REFERENCES` and :data:`SAMPLE`, the place that it is of, and what was found there."""

    what: str
    place: str
    content: Any
