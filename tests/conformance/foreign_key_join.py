"""``fk_join``: the foreign-key join."""

from beam_joins.functions.marked_functions import keys_of
from beam_joins.kernels.overlap import OverlapState, step
from beam_joins.kernels.overlap_events import Shape
from beam_joins.kernels.references import rejoined, subscriptions
from tests.conformance import table_rules
from tests.conformance.answer import Run
from tests.conformance.cores import as_text, core_run
from tests.conformance.kernels import recorded_joiner, right_rows, table_of, texts
from tests.conformance.operators import Cuts, Operator
from tests.conformance.scenario import Scenario
from tests.conformance.values import Values, pair_of
from tests.reference import operators, recomputed
from tests.reference.operators import Replayed, changes_of, upsert_table


def replayed(scenario: Scenario) -> Replayed:
    """Both tables of a scenario through the join's cores."""
    left, right = (changes_of(upsert_table(scenario.records(topic), "records")) for topic in ("left", "right"))
    return operators.foreign_key_join(left, right, how=scenario.topology["type"], foreign_key=_encoded_fk, joiner=_encoded_pair)


def _reference(scenario: Scenario) -> Run:
    return core_run([as_text(change) for change in changes_of(replayed(scenario).outputs)])


def _kernels(scenario: Scenario, values: Values, cuts: Cuts) -> Run:
    shape, state = Shape(scenario.topology["type"], times="foreign_key"), OverlapState()
    changes = []
    for left, right in zip(*(table_of(scenario, topic, values, cuts) for topic in ("left", "right")), strict=True):
        asking = subscriptions(left, keys_of("foreign_key", "reference", left.values), shape)
        parts, state = step(state, asking, right_rows(right), recorded_joiner(values), shape)
        changes += [text for joined in parts for text in texts(joined.changes, rejoined(joined.halves), shown=pair_of)]
    return core_run(changes)


def _encoded_fk(value: bytes) -> bytes | None:
    foreign_key = recomputed.fk_of(value.decode())
    return None if foreign_key is None else foreign_key.encode()


def _encoded_pair(left: bytes, right: bytes | None) -> str:
    return recomputed.pair(left.decode(), None if right is None else right.decode())


OPERATOR = Operator(
    topics=("left", "right"),
    kind=lambda topology: topology["type"],
    kernels=_kernels,
    reference=_reference,
    rule=table_rules.foreign_key_join,
)
