"""Applies a public transform in a run that goes on: one that is rebuilt gets the stored content of its inputs too, and the
table that it makes begins anew.
"""

from collections.abc import Callable, Iterator, Mapping
from typing import Any

import apache_beam as beam
import numpy as np
import pyarrow as pa
from apache_beam.pvalue import PCollection

from beam_joins.batch import ChangeBatch
from beam_joins.keys.key_columns import factorize
from beam_joins.sorting import ends, integers, valid
from beam_joins.transforms.engine.fingerprints import fingerprint, label_of
from beam_joins.transforms.engine.resumed.pipeline_changes import Rules
from beam_joins.transforms.engine.resumed.state_folder import StateFolder
from beam_joins.transforms.engine.stored_content import (
    Applied,
    NotStored,
    StoredContent,
    collections_in,
    producer_of,
    with_each,
)
from beam_joins.transforms.engine.table_type import as_table, is_table, physical_of, table_type

_PUBLIC = "_beam_joins_public_transforms"


def continued(
    transform: beam.PTransform[Any, Any],
    options: Mapping[str, Any],
    rules: Rules,
    table_stage: str | None,
    inputs: Any,
    folder: StateFolder,
    build: Callable[[Any], Any],
) -> Any:
    """The outputs of a transform that ``build`` makes of its inputs, after the verdict on it."""
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
    frontiers = [plan.anew[each] for each in decision.upstream if each in plan.anew]
    if label in plan.read_again:
        frontier = plan.frontier(label)
        frontiers += [] if frontier is None else [frontier]
    elif not within:
        content = StoredContent(folder, public)
        try:
            inputs = with_each(inputs, content.with_changes)
        except NotStored as source:
            plan.lacks_history(decision, str(source))
            return build(inputs)
        frontiers += content.frontiers
    if not frontiers:  # no row is stored
        return build(inputs)
    plan.anew[label] = min(frontiers)
    return _beginning_anew(build(inputs), plan.anew[label], collapses=label in plan.read_again)


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
    """The outputs of a transform, whose table begins anew at a position. ``collapses``: the changes of a table up to it
    become inserts at it.
    """
    if isinstance(outputs, tuple):
        made = [_beginning_anew(each, position, collapses=collapses) for each in outputs]
        return type(outputs)(*made) if hasattr(outputs, "_fields") else tuple(made)
    if not isinstance(outputs, PCollection) or not is_table(outputs):
        return outputs
    of_table, physical = table_type(outputs)._replace(anew=position), physical_of(outputs)
    if collapses:
        outputs = outputs | "From the frontier" >> beam.FlatMap(_from_frontier, position)
        outputs.element_type = ChangeBatch
    return as_table(outputs, of_table, physical)


def _from_frontier(batch: ChangeBatch, position: int) -> Iterator[ChangeBatch]:
    """The changes of a batch that has all of each row, with those up to a position as one insert at it."""
    at, (code,) = integers(batch.position), factorize(batch.key)
    by = np.lexsort((at, code))
    early = by[at[by] <= position]
    kept = at > position
    last = early[ends(code[early])]
    kept[last[valid(batch.new)[last]]] = True
    some = batch.filter(pa.array(kept))
    positions = integers(some.position)
    before = pa.array(integers(some.before.fill_null(-1)), mask=np.asarray(~valid(some.before) | (positions <= position)))
    if len(some):
        yield ChangeBatch(
            key=some.key,
            new=some.new,
            before=before,
            timestamp=some.timestamp,
            position=pa.array(np.maximum(positions, position)),
            earlier=some.earlier,
        )
