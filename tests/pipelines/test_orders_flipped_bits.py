"""python -m pipelines.orders --state-dir: a bit that has changed anywhere in the folder of the state is one
sentence, or the results are the right ones.
"""

import random
import shutil
from pathlib import Path

import pytest

from beam_joins.pipelines.commands.sample.sample_files import write_sample
from beam_joins.transforms.engine.resumed.state_folder import StateFolder
from tests.hostile.damage import TIMES
from tests.pipelines.history import BOTH, arrive, cut, tree
from tests.pipelines.orders_run import Run, one_sentence

Tree = dict[str, bytes]
EACH = 5 * TIMES
"""So many bits of each kind of file."""


@pytest.fixture
def before(tmp_path: Path, run: Run) -> Tree:
    """What a first run has left, when the records of a second one have arrived."""
    first, second = cut(write_sample(tmp_path / "sample", orders=60, customers=9, seed=3), 2)
    arrive(1, first)
    assert run(*BOTH, "--beam_joins_partitions=2").code == 0
    arrive(2, second)
    return everything()


@pytest.fixture
def cut_off(before: Tree, run: Run, monkeypatch: pytest.MonkeyPatch) -> Tree:
    """What a second run has left that was killed when it had written down what is to be committed."""

    def killed(folder: StateFolder) -> None:
        raise SystemExit(9)

    with monkeypatch.context() as patched:
        patched.setattr(StateFolder, "finish", killed)
        assert run(*BOTH).code == 9
    return everything()


def everything() -> Tree:
    return {**tree("state"), **tree()}


def put_back(files: Tree) -> None:
    for name in ("state", "out"):
        shutil.rmtree(name)
    for name, content in files.items():
        Path(name).parent.mkdir(parents=True, exist_ok=True)
        Path(name).write_bytes(content)


def flip_bits(run: Run, files: Tree, pattern: str, seed: int) -> None:
    put_back(files)
    ran = run(*BOTH)
    assert ran.code == 0, ran.err
    right, draw, refused = tree(), random.Random(seed), 0
    for _ in range(EACH):
        name = draw.choice([name for name in sorted(files) if Path(name).match(pattern)])
        content = bytearray(files[name])
        at, bit = draw.randrange(len(content)), draw.randrange(8)
        content[at] ^= 1 << bit
        damaged = {**files, name: bytes(content)}
        put_back(damaged)
        ran = run(*BOTH)
        if ran.code == 0:
            assert tree() == right, (name, at, bit)
        else:
            assert Path(name).name in one_sentence(ran)
            assert everything() == damaged, (name, at, bit)
            refused += 1
    assert refused, "the checksums are not looked at"


def test_of_the_manifest(run: Run, before: Tree) -> None:
    flip_bits(run, before, "state/manifest.json", 1)


@pytest.mark.slow
def test_of_the_rows(run: Run, before: Tree) -> None:
    flip_bits(run, before, "state/runs/*/*.arrow", 2)


def test_of_what_is_to_be_committed(run: Run, cut_off: Tree) -> None:
    flip_bits(run, cut_off, "state/commit.json", 3)
