"""Every writer of files keeps to the same rules: one run at a time, and what a dead run has left goes with
the next one.
"""

import os
from collections.abc import Iterable
from functools import wraps
from pathlib import Path
from typing import Any

import pytest

from beam_joins.errors import InputError
from beam_joins.pipelines.commands.sample.sample_files import SampleFiles
from beam_joins.pipelines.results.output_lock import lock_of, staging_of, take
from beam_joins.pipelines.results.publication import Publication
from beam_joins.pipelines.systems.files import write_changelog, write_parquet
from beam_joins.transforms.engine.files.claim import Claim, new_claim
from tests.pipelines.history import arrive, cut, tree
from tests.pipelines.writers import WRITERS, Writer

LARGER_THAN_ANY = 2**22 + 1
"""A number that Linux gives to no process."""


@pytest.fixture(params=WRITERS)
def writer(request: pytest.FixtureRequest, own_directory: Path, small: SampleFiles) -> Writer:
    arrive(1, cut(small, 1)[0])
    return WRITERS[request.param]


@pytest.fixture
def other() -> Claim:
    """The claim of another process of this machine, which lives as long as the test."""
    return new_claim()._replace(pid=os.getppid(), process="")


def hidden() -> list[str]:
    return sorted(str(path) for path in Path("out").rglob(".*"))


def visible() -> list[str]:
    return sorted(str(path) for path in Path("out").rglob("*") if path.is_file() and not any(part[0] == "." for part in path.parts))


def test_a_second_run_to_the_same_path_is_refused_and_leaves_nothing(
    writer: Writer, other: Claim, capsys: pytest.CaptureFixture[str]
) -> None:
    take(writer.claimed, other)
    assert writer.run() in (1, 2)
    sentence = (
        f"{writer.claimed} is being written by another run, process {other.pid} on {other.host}: wait for it or name another output"
    )
    assert sentence in capsys.readouterr().err
    assert hidden() == [str(Path(lock_of(writer.claimed)).relative_to(Path().absolute()))], "only the other's"
    assert visible() == []


def test_what_a_dead_run_has_left_goes_with_the_next_one(writer: Writer) -> None:
    dead = new_claim()._replace(pid=LARGER_THAN_ANY, process="")
    take(writer.claimed, dead)
    Path(staging_of(writer.claimed, dead)).mkdir()
    assert writer.run() == 0
    assert visible()
    assert hidden() == []


@pytest.mark.parametrize("result", [write_changelog._Result, write_parquet._Result])
@pytest.mark.parametrize("claimed_again", [False, True])
@pytest.mark.each_value
def test_to_publish_a_second_time_succeeds_and_changes_nothing(
    own_directory: Path, monkeypatch: pytest.MonkeyPatch, result: Any, claimed_again: bool
) -> None:
    publish, files = result.publish, list[dict[str, bytes]]()

    @wraps(publish)
    def twice(self: Any, parts: Iterable[Any]) -> Any:
        several = list(parts)
        for _ in range(2):
            written = publish(self, several)
            files.append(tree())
            if claimed_again and len(files) == 1:
                self.publication.claim()
        return written

    monkeypatch.setattr(result, "publish", twice)
    assert WRITERS["WriteChangelog" if result is write_changelog._Result else "WriteParquet"].run() == 0
    assert files[0] == files[1]
    assert len(files[0]) == 1


def test_the_file_of_an_earlier_run_is_not_taken_for_that_of_a_run_whose_parts_are_on_another_machine(
    own_directory: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    writer, publish = WRITERS["WriteChangelog"], write_changelog._Result.publish
    assert writer.run() == 0
    (path,) = visible()
    os.utime(path, ns=(0, before := os.stat(path).st_mtime_ns - 60_000_000_000))

    @wraps(publish)
    def elsewhere(self: Any, parts: Iterable[Any]) -> Any:
        return publish(self, [part._replace(path=f"{part.path}-elsewhere") for part in parts])

    monkeypatch.setattr(write_changelog._Result, "publish", elsewhere)
    assert writer.run() in (1, 2)
    assert "the parts of this run are not there on " in capsys.readouterr().err
    assert os.stat(path).st_mtime_ns == before


def test_a_publication_that_fails_releases_its_paths_but_in_workers_where_it_is_done_again(own_directory: Path) -> None:
    for in_workers in (False, True):
        publication = Publication("out/a", in_workers=in_workers)
        with pytest.raises(ZeroDivisionError), publication:
            Path(publication.attempt("out/a"), "part").touch()
            raise ZeroDivisionError
        assert bool(hidden()) is in_workers
        assert publication.is_held() is in_workers
    with publication:
        assert Path(publication.attempt("out/a"), "part").exists()
    assert hidden() == []


def test_a_run_in_workers_gives_way_to_a_later_one_of_its_process_and_says_so(own_directory: Path) -> None:
    earlier, later = (Publication("out/a", in_workers=True) for _ in range(2))
    earlier.claim()
    later.claim()
    with pytest.raises(InputError, match="out/a has been taken over by a later run: this one has written nothing"):
        earlier.publish([])
    with pytest.raises(InputError, match="is being written by another run"):
        earlier.claim()
