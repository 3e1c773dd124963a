"""Mistakes in kernels and in the planning of SQL are noticed by queries, step by step, beside DuckDB."""

import importlib
import inspect
import random
import types

import pytest

from tests.random_queries import compare, long_history, random_queries, steps_of
from tests.reference.random_sql import random_shop

KERNELS, PLANNED = "beam_joins.kernels.", "beam_joins.views.planned."
MUTATIONS = [
    (f"{KERNELS}filter", "absent = (before < 0) | ~passes[before]", "absent = before < 0"),
    (f"{KERNELS}filter", "kept = passes | ~absent", "kept = passes"),
    (f"{KERNELS}many_to_many", "np.where(valid(column), code, -1)", "code"),
    (f"{KERNELS}many_to_many", "np.minimum(left.spans.last[a], right.spans.last[b])", "left.spans.last[a]"),
    (f"{KERNELS}many_to_many", "np.maximum(left.spans.begin[a], right.spans.begin[b])", "left.spans.begin[a]"),
    (f"{KERNELS}many_to_many", 'zero=self._shape.how != "semi"', "zero=True"),
    (f"{KERNELS}many_to_many", "counts[0].add(a, begin, last, alive[1])", "counts[0].add(a, begin, last, alive[0])"),
    (f"{KERNELS}many_to_many", "side.remember((uncounted + ongoing)[code])", "side.remember(ongoing[code])"),
    (f"{KERNELS}many_to_many", " | (self._has != self._had)", ""),
    (f"{KERNELS}row_spans", "np.append(position[1:], 0)[: len(by)] - 1", "np.append(position[1:], 0)[: len(by)]"),
    (f"{KERNELS}row_spans", "is_touched[row[by >= alive]] = True", "is_touched[row[by > alive]] = True"),
    (f"{KERNELS}row_spans", "(number == 0) != (was == 0)", "(number == 0) & (was != 0)"),
    (f"{KERNELS}row_spans", "np.where(ended, behind - 1, last[index])", "last[index]"),
    (f"{KERNELS}measures", "np.where(is_in, 1, -1)", "np.where(is_in, 1, 0)"),
    (f"{KERNELS}measures", "counted = np.where(valid(values), sign, 0)", "counted = sign"),
    (f"{KERNELS}measures", "np.where(count > 0, np.arange(len(count)), -1)", "np.arange(len(count))"),
    (f"{KERNELS}measures", 'measure.function == "max"]', 'measure.function == "min"]'),
    (f"{KERNELS}measures", "exists = present if keeps_empty else number > 0", "exists = present if keeps_empty else number >= 0"),
    (f"{KERNELS}measures", 'groups.before_in(f"count {n}", pa.int64())', 'groups.before_in("no column", pa.int64())'),
    (f"{KERNELS}distinct_values", "present = self._after > 0", "present = self._after >= 0"),
    (f"{KERNELS}distinct_values", 'np.where(at >= 0, integers(held["count"])[at], 0)', "np.zeros(len(at), np.int64)"),
    (f"{KERNELS}distinct_values", "-rank[index] if greatest else rank[index]", "rank[index]"),
    (
        f"{KERNELS}distinct_values",
        "ends = np.concatenate([last, self._last_event[of_group]]) + 1",
        "ends = np.concatenate([last, self._last_event[of_group]])",
    ),
    (f"{KERNELS}key_join", "present = present & ~exists", "present = present & exists"),
    (f"{KERNELS}key_join", "visible = [*(shown & present for shown in visible), exists]", "visible = [*visible, exists]"),
    (f"{KERNELS}overlap", "before[starts(events.row)] = -1", "before[:1] = -1"),
    (
        f"{KERNELS}overlap",
        "state.left.starting_with(touched if shape.keeps_right else pc.unique(changed))",
        "state.left.starting_with(touched.slice(0, 0))",
    ),
    (f"{KERNELS}references", "leaves = was & ~stays", "leaves = was & ~stays & ~enters"),
    (f"{KERNELS}references", "refers & exists", "exists"),
    (f"{PLANNED}sql_conditions", "if all(part in branch for branch in branches[1:])", ""),
    (f"{PLANNED}sql_conditions", 'called != "equal")', "False)"),
    (
        f"{PLANNED}sql_joins",
        'marks: dict[How, bool] = {"semi": True, "anti": False}',
        'marks: dict[How, bool] = {"semi": False, "anti": True}',
    ),
    (f"{PLANNED}sql_joins", "(pc.field(nulls) == 0) & pc.field(value).is_valid()", "pc.field(value).is_valid()"),
    (f"{PLANNED}sql_joins", 'count > 0 if how == "semi" else count == 0', 'count > 0 if how == "anti" else count == 0'),
    (
        f"{PLANNED}sql_relations",
        "(below[side] if is_of_side else above).append(each)",
        "(below[side] if side in of_side else above).append(each)",
    ),
    (f"{PLANNED}sql_relations", "above = [each for each in above if id(each) not in used and each not in rest]", "above = []"),
    (f"{PLANNED}sql_relations", "[each.mirrored for each in pairs]", "pairs"),
]
"""The module, a part of its text, and what a mistake makes of it."""


def mistaken(monkeypatch, name, part, mistake):
    """Have the functions of a module be those of its text with a mistake."""
    module = importlib.import_module(name)
    text = inspect.getsource(module)
    assert text.count(part) == 1, f"{part!r} occurs {text.count(part)} times in {name}"
    made = types.ModuleType(name)
    exec(compile(text.replace(part, mistake), str(module.__file__), "exec"), made.__dict__)
    changed = 0
    for owner, other in [
        (module, made),
        *((each, getattr(made, key)) for key, each in vars(module).items() if isinstance(each, type) and each.__module__ == name),
    ]:
        for key, each in vars(owner).items():
            function, new = (getattr(of, "__func__", getattr(of, "fget", of)) for of in (each, vars(other).get(key)))
            if isinstance(function, types.FunctionType) and function.__module__ == name and function.__code__ != new.__code__:
                monkeypatch.setattr(function, "__code__", new.__code__)
                changed += 1
    assert changed == 1, f"the mistake is in {changed} functions"


def is_noticed(seed):
    """Whether a random query of a seed has another answer than in DuckDB, or none."""
    chance = random.Random(seed)
    drawn = random_shop(chance)
    try:
        long_history(seed)
        for query, relation in random_queries(chance, drawn, 6):
            compare([*steps_of(relation, drawn, chance)], query, drawn, drawn.positions())
    except Exception:
        return True
    return False


@pytest.mark.sweep
@pytest.mark.parametrize(
    ("name", "part", "mistake"), MUTATIONS, ids=[f"{name.rpartition('.')[2]} {n}" for n, (name, _, _) in enumerate(MUTATIONS)]
)
def test_a_mistake_is_noticed(monkeypatch, name, part, mistake):
    mistaken(monkeypatch, name, part, mistake)
    assert any(is_noticed(seed) for seed in range(5_000, 5_040))
