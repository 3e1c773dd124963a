"""Applies a public transform in a run that goes on: one that is rebuilt gets the stored content of its inputs too, and the
table that it makes begins anew.
"""

from collections.abc import Mapping, Sequence
from typing import Any, ClassVar, Protocol

from apache_beam.pvalue import PCollection

from beam_joins.transforms.engine.backfill import NotStored, StoredContent, from_position
from beam_joins.transforms.engine.construction.applied_transforms import Applied, collections_in, nearest_upstream, public_transforms
from beam_joins.transforms.engine.construction.fingerprints import fingerprint, label_of
from beam_joins.transforms.engine.construction.pipeline_changes import Rules
from beam_joins.transforms.engine.construction.table_type import as_table, is_table, physical_of, table_type
from beam_joins.transforms.engine.resumed.state_folder import StateFolder


class GoesOn(Protocol):
    """A public transform as far as runs that go on ask it."""

    table_stage: ClassVar[str | None]
    """The name of its stage that stores the rows of the table that it makes."""

    reader: Mapping[str, Any]
    """The options of the reader that it is a part of."""

    def options_of_state(self, inputs: Sequence[PCollection[Any]]) -> Mapping[str, Any]:
        """The options on which its state depends where it has these inputs."""

    def rules_for(self, inputs: list[PCollection[Any]]) -> Rules:
        """The verdicts on changes where it has these inputs."""

    def tables_among(self, inputs: list[PCollection[Any]]) -> Sequence[PCollection[Any]]:
        """The inputs that are tables."""

    def outputs_of(self, pvalue: Any) -> Any:
        """The outputs for the inputs."""


def continued(transform: GoesOn, inputs: Any, folder: StateFolder) -> Any:
    """The outputs of a transform after the verdict on it."""
    collections = collections_in(inputs)
    pipeline = collections[0].pipeline
    label = label_of(pipeline)
    public = public_transforms(pipeline)
    within = [each.full_label for each in pipeline.transforms_stack[:-1] if each.full_label in public]
    upstream = [nearest_upstream(each, public) for each in collections]
    plan = folder.plan
    before = plan.before.transforms.get(label)
    options = transform.options_of_state(collections)
    properties = fingerprint(type(transform).__name__, options, collections, upstream, before, transform.reader)
    decision = plan.decide(label, properties, transform.rules_for(collections), sum(upstream, within))
    public[label] = Applied(transform, inputs, transform.table_stage)
    if decision.verdict != "rebuilt":
        return transform.outputs_of(inputs)
    is_read_again = plan.is_read_again(label)
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
            inputs, position = StoredContent(folder, public).with_changes(inputs, transform.tables_among(collections), above)
        except NotStored as source:
            plan.lacks_history(decision, str(source))
            return transform.outputs_of(inputs)
    if position is None:  # no row is stored
        return transform.outputs_of(inputs)
    plan.anew[label] = position
    return _beginning_anew(transform.outputs_of(inputs), position, collapses=is_read_again)


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
