"""Wrong answers made of right ones, one mistake each: what a judge must notice.

A mistake in the changes of a table is carried through: the old values and the final table are those of the
wrong changes, so that only their content gives the mistake away.
"""

import random
from collections.abc import Callable, Iterator
from typing import NamedTuple

from tests.conformance.answer import Answer, Out, Pair, in_steps_order
from tests.conformance.judge import last_results
from tests.conformance.scenario import Scenario

Steps = list[list[Out]]


class At(NamedTuple):
    """Where a record stands in an answer: the step, and the place in it."""

    step: int
    place: int


def _places(steps: Steps, *, tombstones: bool | None = None) -> list[At]:
    return [
        At(i, j)
        for i, outs in enumerate(steps)
        for j, out in enumerate(outs)
        if tombstones is None or tombstones == (out.value is None)
    ]


def _replaced(steps: Steps, at: At, *outs: Out) -> Steps:
    step = steps[at.step]
    return [*steps[: at.step], in_steps_order([*step[: at.place], *outs, *step[at.place + 1 :]]), *steps[at.step + 1 :]]


def _lost(steps: Steps, chance: random.Random) -> Steps | None:
    places = _places(steps, tombstones=False)
    return _replaced(steps, chance.choice(places)) if places else None


def _tombstone_lost(steps: Steps, chance: random.Random) -> Steps | None:
    places = _places(steps, tombstones=True)
    return _replaced(steps, chance.choice(places)) if places else None


def _twice(steps: Steps, chance: random.Random) -> Steps | None:
    if not (places := _places(steps)):
        return None
    at = chance.choice(places)
    return _replaced(steps, at, *[steps[at.step][at.place]] * 2)


def _other_value(steps: Steps, chance: random.Random) -> Steps | None:
    if not (places := _places(steps, tombstones=False)):
        return None
    at = chance.choice(places)
    out = steps[at.step][at.place]
    return _replaced(steps, at, out._replace(value=f"{out.value}1"))


def _other_time(steps: Steps, chance: random.Random) -> Steps | None:
    if not (places := _places(steps)):
        return None
    at = chance.choice(places)
    out = steps[at.step][at.place]
    return _replaced(steps, at, out._replace(ts=out.ts + 1))


def _swapped(steps: Steps, chance: random.Random) -> Steps | None:
    places = _places(steps)
    pairs = [
        (a, b)
        for a in places
        for b in places
        if a.step < b.step and (one := steps[a.step][a.place]) != (other := steps[b.step][b.place]) and one.key == other.key
    ]
    if not pairs:
        return None
    a, b = chance.choice(pairs)
    return _replaced(_replaced(steps, a, steps[b.step][b.place]), b, steps[a.step][a.place])


CHANGES: dict[str, Callable[[Steps, random.Random], Steps | None]] = {
    "a row lost": _lost,
    "a tombstone lost": _tombstone_lost,
    "a row twice": _twice,
    "another value": _other_value,
    "another time": _other_time,
    "two swapped": _swapped,
}
KINDS = (*CHANGES, "another old value", "another final row")


def mutations(scenario: Scenario, right: Answer, seed: int) -> Iterator[tuple[str, Answer]]:
    """For each kind of mistake an answer that has one; kinds that the answer gives no occasion for are left
    out.
    """
    for kind, change in CHANGES.items():
        chance = random.Random(f"{seed} {scenario.name} {kind}")
        if (outs := change(right.outs, chance)) is not None:
            yield kind, _carried_through(scenario, right, outs)
        if right.raw is not None and (raw := change(right.raw, chance)) is not None:
            yield kind, right._replace(raw=raw)
    chance = random.Random(f"{seed} {scenario.name}")
    if right.pairs is None:
        return
    if places := [At(i, j) for i, pairs in enumerate(right.pairs) for j in range(len(pairs))]:
        at = chance.choice(places)
        pairs = [list(step) for step in right.pairs]
        pairs[at.step][at.place] = pairs[at.step][at.place]._replace(old="other")
        yield "another old value", right._replace(pairs=pairs)
    if right.final_table:
        key = chance.choice(sorted(right.final_table))
        rows = {k: v for k, v in right.final_table.items() if k != key}
        yield "another final row", right._replace(final_table=rows)


def _carried_through(scenario: Scenario, right: Answer, outs: Steps) -> Answer:
    if right.pairs is None:
        return right._replace(outs=outs)
    rows: dict[str | None, str | None] = {}
    pairs: list[list[Pair]] = [[] for _ in outs]
    for i in scenario.by_position():
        for out in outs[i]:
            pairs[i].append(Pair(str(out.key), rows.get(out.key), out.value, out.ts))
            rows[out.key] = out.value
    table = {key: str(out.value) for key, out in sorted(last_results(scenario, outs).items())}
    return right._replace(outs=outs, pairs=pairs, final_table=table)
