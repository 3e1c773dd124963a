"""The runs of a SQL file: one, or one after the other on a runner that stays warm."""

import tempfile
import time
from argparse import Namespace
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from functools import partial
from typing import Final, NamedTuple

import apache_beam as beam
from apache_beam.options.pipeline_options import PipelineOptions
from apache_beam.pvalue import PBegin

from beam_joins.pipelines.base.input_error import NoFile, NoWholeFile
from beam_joins.pipelines.base.interruption import Interruption
from beam_joins.pipelines.base.progress import counted
from beam_joins.pipelines.changelogs.reader_memory import Arrivals
from beam_joins.pipelines.commands.program import program
from beam_joins.pipelines.commands.rounds import LOOK_SECONDS, repeated
from beam_joins.pipelines.runners.runner_setup import runner
from beam_joins.pipelines.sql.change_counts import CountChanges, change_counts
from beam_joins.pipelines.sql.sql_pipeline import KeptRelation, build, unread_columns
from beam_joins.pipelines.sql.sql_script import Statement
from beam_joins.transforms.connect.runs import (
    ReplayOptions,
    StateFolder,
    drops_in_words,
    drops_of,
    empty_pipeline,
    folder_for,
    tell_no_drops,
)

_LOOKS: Final = 4
_VERIFY: Final = "verify"
"""The folder below that of a state with the rows by which runs are verified."""
_NOTHING_NEW: Final = "nothing new: nothing to do"


class _Built(NamedTuple):
    """The pipeline of a run, and what it has."""

    pipeline: beam.Pipeline
    relations: Sequence[KeptRelation]
    state: StateFolder | None
    number: int
    verify: Callable[[], Iterator[str]]

    @property
    def is_due(self) -> bool:
        """Whether a run would do anything."""
        return self.state is None or self.state.is_due


class _Ended(NamedTuple):
    """A run that has succeeded: its number, 0 without a state, and the numbers of changes of the relations, by name; ``None`` where
    the runner does not count. ``drops`` are the numbers of dropped records of relations, by reason.
    """

    number: int
    relations: Sequence[KeptRelation]
    counts: dict[str, int] | None
    drops: Mapping[str, Mapping[str, int]]

    def lines(self) -> list[str]:
        """A line for each table and each view with a target, and for each relation that has dropped records."""
        kept = [f"{each.name}: {self._count(each)}{self._target(each)}" for each in self.relations if not each.query or each.target]
        return [*kept, *self.dropped()]

    def dropped(self) -> list[str]:
        """A line for each relation that has dropped records."""
        return list(filter(None, (drops_in_words(each.name, self.drops.get(each.name, {})) for each in self.relations)))

    def line(self, seconds: float) -> str:
        """All of it in one line."""
        shown = ", ".join(f"{each.name} {self._count(each)}" for each in self.relations if not each.query or each.target)
        return f"run {self.number}: {shown}, {seconds:.1f} s"

    def _count(self, relation: KeptRelation) -> str:
        if self.counts is None:
            return "kept" if relation.query else "read"
        return counted(self.counts.get(relation.name, 0), "change")

    @staticmethod
    def _target(relation: KeptRelation) -> str:
        return f", kept in {relation.target}" if relation.target else ""


class SqlRuns:
    """The runs of a file. ``verifies``: DuckDB computes each view anew at the end of a run, which fails where they differ."""

    def __init__(self, statements: Sequence[Statement], *, verifies: bool) -> None:
        self._statements, self._verifies = statements, verifies

    def explained(self) -> str:
        """The plans of the views, and the columns that no view reads."""
        relations = build(empty_pipeline(PipelineOptions()), self._statements)
        plans = [f"{each.name}{f' -> {each.target}' if each.target else ''}\n{each.plan}\n" for each in relations if each.plan]
        kept = [f"{name}: no view reads {', '.join(names)}\n" for name, names in unread_columns(relations).items()]
        remedy = ["A state keeps these columns for later views; a table that declares its columns has no others.\n"] if kept else []
        return "\n".join([*plans, *kept, *remedy])

    def once(self, options: PipelineOptions) -> Iterator[str]:
        """Run once; gives lines about it."""
        with _folder() as folder, runner(options) as ready:
            built = self._built(ready, folder)
            if not built.is_due:
                yield _NOTHING_NEW
                return
            yield from self._run(built).lines()
            yield from built.verify()

    def follow(self, options: PipelineOptions, args: Namespace, interruption: Interruption) -> str:
        """Run until a signal asks to stop, and print a line for each run; gives the last sentence."""
        arrivals, rounds, told = Arrivals(at_once=args.whole_files), 0, False
        with _folder() as folder, runner(options) as ready:

            def one() -> Callable[[], None]:
                begin = time.monotonic()
                try:
                    built = self._looked(ready, folder, arrivals, interruption)
                except NoFile as absent:
                    return partial(tell_absent, absent)
                if not built.is_due:
                    return lambda: None
                with interruption.later(False):
                    ended = self._run(built)
                ready.view_as(ReplayOptions).beam_joins_read_again = None  # a later run of this process goes on
                return partial(tell, built, ended, begin)

            def tell_absent(absent: NoFile) -> None:
                nonlocal told
                if not told and not isinstance(absent, NoWholeFile):
                    print(f"{absent}: waiting for it", flush=True)
                    told = True

            def tell(built: _Built, ended: _Ended, begin: float) -> None:
                nonlocal rounds
                rounds += 1
                interruption.sentence = (
                    f"interrupted after {counted(rounds, 'run')}, whose results stay; the next start repeats a run that was given up"
                )
                print(ended.line(time.monotonic() - begin), flush=True)
                for sentence in (*ended.dropped(), *built.verify()):
                    print(sentence, flush=True)

            repeated(one, args, interruption, program("run"))
        return f"stopped after {counted(rounds, 'run')}"

    def _looked(self, options: PipelineOptions, folder: str, arrivals: Arrivals, interruption: Interruption) -> _Built:
        """The pipeline of a round; where files have come meanwhile it is built again. Raises :class:`NoFile`."""
        arrivals.next_look()
        for _ in range(_LOOKS):
            built: _Built | NoFile
            try:
                built = self._built(options, folder, arrivals)
            except NoFile as absent:
                built = absent
            if not arrivals.has_unknown:
                break
            interruption.wait(LOOK_SECONDS)
            if not arrivals.have_more:
                break
        if isinstance(built, NoFile):
            raise built
        return built

    def _built(self, options: PipelineOptions, folder: str, arrivals: Arrivals | None = None) -> _Built:
        """The pipeline of a run; ``folder`` is one for temporary files."""
        pipeline = empty_pipeline(options)
        tell_no_drops(pipeline)  # lines of the run say them
        if arrivals is not None:
            arrivals.looked_at_by(pipeline)
        relations = build(pipeline, self._statements)
        state = folder_for(PBegin(pipeline))
        for each in relations:
            _ = each.table | f"Count {each.name}" >> CountChanges(each.name)
        verify = _unverified
        if self._verifies:
            from beam_joins.pipelines.sql.verified_views import verification  # noqa: PLC0415  # with DuckDB

            verify = verification(relations, folder, folder if state is None else state.files.path(_VERIFY))
        return _Built(pipeline, relations, state, 0 if state is None else state.run, verify)

    @staticmethod
    def _run(built: _Built) -> _Ended:
        result = built.pipeline.run()
        result.wait_until_finish()
        drops = drops_of(result, [each.name for each in built.relations])
        return _Ended(built.number, built.relations, change_counts(result), drops)


def _folder() -> AbstractContextManager[str]:
    """A folder for files of the runs, which is removed behind the block."""
    return tempfile.TemporaryDirectory(prefix="beam-joins-sql-")


def _unverified() -> Iterator[str]:
    return iter(())
