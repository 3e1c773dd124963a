"""Applies a public transform in a run that goes on: one that is rebuilt gets the stored content of its inputs too, and the
table that it makes begins anew.
"""

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import apache_beam as beam
from apache_beam.pvalue import PCollection

from beam_joins.transforms.engine.fingerprints import fingerprint, label_of
from beam_joins.transforms.engine.resumed.pipeline_changes import Rules
from beam_joins.transforms.engine.resumed.state_folder import StateFolder
from beam_joins.transforms.engine.stored_content import (
    Applied,
    NotStored,
    StoredContent,
    collections_in,
    from_position,
    producer_of,
)
from beam_joins.transforms.engine.table_type import as_table, is_table, physical_of, table_type

_PUBLIC = "_beam_joins_public_transforms"


def continued(
    transform: beam.PTransform[Any, Any],
    options: Mapping[str, Any],
    rules: Rules,
    table_stage: str | None,
    tables: Sequence[PCollection[Any]],
    inputs: Any,
    folder: StateFolder,
    build: Callable[[Any], Any],
) -> Any:
    """The outputs of a transform that ``build`` makes of its inputs, ``tables`` among them, after the verdict on it."""
    collections = collections_in(inputs)
    pipeline = collections[0].pipeline
    label = label_of(pipeline)
    public = _public_transforms(pipeline)
    within = [each.full_label for each in pipeline.transforms_stack[:-1] if each.full_label in public]
    upstream = [_upstream(each, public) for each in collections]
    plan = folder.plan
    decision = plan.decide(label, fingerprint(type(transform).__name__, options, collections, upstream), rules, sum(upstream, within))
    public[label] = Applied(transform, inputs, table_stage)
    if decision.verdict != "rebuilt":
        return build(inputs)
    is_read_again = label in plan.read_again
    if is_read_again:
        position = plan.frontier(label)
    elif within:
        position = max((plan.anew[each] for each in within if each in plan.anew), default=None)
    else:
        above = {
            id(each): [plan.anew[one] for one in labels if one in plan.anew]
            for each, labels in zip(collections, upstream, strict=True)
        }
        try:
            inputs, position = StoredContent(folder, public).with_changes(inputs, tables, above)
        except NotStored as source:
            plan.lacks_history(decision, str(source))
            return build(inputs)
    if position is None:  # no row is stored
        return build(inputs)
    plan.anew[label] = position
    return _beginning_anew(build(inputs), position, collapses=is_read_again)


def _upstream(pcoll: PCollection[Any], public: Mapping[str, Applied]) -> list[str]:
    """The labels of the nearest public transforms upstream of a collection."""
    producer = producer_of(pcoll, public)
    if producer.full_label in public:
        return [producer.full_label]
    above = [*producer.inputs, *(side.pvalue for side in producer.side_inputs)]
    return sorted({label for each in above if isinstance(each, PCollection) for label in _upstream(each, public)})


def _public_transforms(pipeline: Any) -> dict[str, Applied]:
    public: dict[str, Applied] | None = getattr(pipeline, _PUBLIC, None)
    if public is None:
        public = {}
        setattr(pipeline, _PUBLIC, public)
    return public


def _beginning_anew(outputs: Any, position: int, *, collapses: bool) -> Any:
    """The outputs of a transform, whose table begins anew at a position. ``collapses``: the table has changes in front of it."""
    if isinstance(outputs, tuple):
        made = [_beginning_anew(each, position, collapses=collapses) for each in outputs]
        return type(outputs)(*made) if hasattr(outputs, "_fields") else tuple(made)
    if not isinstance(outputs, PCollection) or not is_table(outputs):
        return outputs
    if collapses:
        outputs = from_position(outputs, position)
    return as_table(outputs, table_type(outputs)._replace(anew=position), physical_of(outputs))
