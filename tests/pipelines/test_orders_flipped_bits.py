"""A byte that has changed anywhere in the folder of a state: one sentence and nothing else, or the right results."""

import random
import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest

from beam_joins.pipelines.sample import write_sample
from tests.hostile.damage import TIMES
from tests.pipelines.history import BOTH, arrive, cut, tree
from tests.pipelines.orders_run import Run, one_sentence

Tree = dict[str, bytes]
EACH = 5 * TIMES
"""So many bytes of each kind of file."""


@pytest.fixture
def before(tmp_path: Path, run: Run) -> Tree:
    """What a first run has left, when the records of a second one have arrived."""
    first, second = cut(write_sample(tmp_path / "sample", orders=60, customers=9, seed=3), 2)
    arrive(1, first)
    assert run(*BOTH, "--beam_joins_partitions=2").code == 0
    arrive(2, second)
    return everything()


def everything() -> Tree:
    return {**tree("state"), **tree()}


def as_before(before: Tree) -> None:
    for name in ("state", "out"):
        shutil.rmtree(name)
    for name, content in before.items():
        Path(name).parent.mkdir(parents=True, exist_ok=True)
        Path(name).write_bytes(content)


def flipped(before: Tree, draw: random.Random) -> Iterator[tuple[str, bytes]]:
    """Files of the state, each with a bit of one byte changed."""
    kinds = [[name for name in sorted(before) if name.startswith("state/") and name.endswith(end)] for end in (".json", ".arrow")]
    for names in kinds:
        assert names
        for _ in range(EACH):
            name = draw.choice(names)
            content = bytearray(before[name])
            content[draw.randrange(len(content))] ^= 1 << draw.randrange(8)
            yield name, bytes(content)


def test_a_flipped_bit_is_one_sentence_or_changes_nothing(before: Tree, run: Run) -> None:
    ran = run(*BOTH)
    assert ran.code == 0, ran.err
    right = tree()
    assert right != {name: content for name, content in before.items() if name.startswith("out/")}
    refused = 0
    for name, content in flipped(before, random.Random(11)):
        as_before(before)
        Path(name).write_bytes(content)
        ran = run(*BOTH)
        if ran.code == 0:
            assert tree() == right, name
        else:
            assert Path(name).name in one_sentence(ran)
            assert everything() == {**before, name: content}
            refused += 1
    assert refused
