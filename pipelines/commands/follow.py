"""``--follow``: one run after the other, on a runner that stays warm."""

import time
from argparse import Namespace
from collections.abc import Callable
from functools import partial
from typing import Final

from apache_beam.options.pipeline_options import PipelineOptions

from beam_joins.pipelines.base.interruption import Interruption
from beam_joins.pipelines.base.progress import Progress, counted
from beam_joins.pipelines.changelogs.processed_files import NewFiles
from beam_joins.pipelines.changelogs.read_records import READ
from beam_joins.pipelines.commands.command_spec import CHANGES, TO
from beam_joins.pipelines.commands.exports import Exports
from beam_joins.pipelines.commands.incremental_runs import Arrived, Ended, IncrementalRuns
from beam_joins.pipelines.commands.program import program
from beam_joins.pipelines.commands.rounds import LOOK_SECONDS, repeated
from beam_joins.pipelines.commands.summary import LATE
from beam_joins.pipelines.commands.write_json import STDOUT, write_json
from beam_joins.pipelines.results.counts import add_up
from beam_joins.pipelines.runners.runner_setup import runner, workers_for

_LOOKS: Final = 20


def follow(
    runs: IncrementalRuns, options: PipelineOptions, args: Namespace, interruption: Interruption, exports: Exports
) -> str | None:
    """Run until a signal asks to stop, at once and then every so many seconds, and print a line for each run; gives
    the last sentence for the user.

    A round without a new file reads nothing but the names of files. A round that fails ends it: the error
    says why, and nothing of the round is kept; where a server or a store does not answer the round is repeated for a time.
    """
    arrivals, last, told, rounds = NewFiles(), set[str](), False, 0

    with runner(options) as ready:

        def one() -> Callable[[], None]:
            nonlocal last
            begin, progress = time.monotonic(), Progress()
            exports.begin(progress)
            arrived = _arrived(runs, last, interruption)
            last = _paths(arrived)
            arrivals.next_look()
            whole = runs.whole(arrived, arrivals)
            with interruption.later(False):
                ended = runs.run(arrived if args.whole_files else whole, partial(workers_for, ready), progress, interruption, exports)
            return partial(tell, arrived, ended, begin, progress)

        def tell(arrived: Arrived, ended: Ended | None, begin: float, progress: Progress) -> None:
            nonlocal told, rounds
            if ended is None:
                exports.succeeded(None)
                for absent in [] if told or args.json == STDOUT else runs.absent(arrived):
                    print(f"{absent}: waiting for it", flush=True)
            else:
                rounds += 1
                interruption.sentence = (
                    f"interrupted after {counted(rounds, 'run')}, whose results stay; the next start repeats a run that was given up"
                )
                summary = ended.summary(progress.seconds)
                exports.succeeded(summary, ended.latest)
                if args.json is not None:
                    write_json(summary, args.json, append=True)
                if args.json != STDOUT:
                    print("\n".join([line(ended, time.monotonic() - begin), *ended.waits]), flush=True)
            told = True

        repeated(one, args, interruption, program(runs.command), partial(exports.failed, interrupted=False))
    if args.json == STDOUT:
        return None
    places = " and ".join(filter(None, (args.changes, args.latest, args.to)))
    written = f"the results are in {places}" if rounds else "no results were written"
    return f"stopped after {counted(rounds, 'run')}; {written}"


def _arrived(runs: IncrementalRuns, last: set[str], interruption: Interruption) -> Arrived:
    """The existing files of each input; if one is new, those that come right behind it too."""
    for _ in range(_LOOKS):
        arrived = runs.arrived()
        if (now := _paths(arrived)) <= last:
            break
        last = now
        interruption.wait(LOOK_SECONDS)
    return arrived


def _paths(arrived: Arrived) -> set[str]:
    return {file.path for files in arrived.values() for file in files}


def line(ended: Ended, seconds: float) -> str:
    """The line on a round that has ended.

    >>> from beam_joins.pipelines.results.counts import Tally
    >>> from beam_joins.pipelines.results.write_parts import Report, WrittenPart
    >>> report = Report([Tally("orders", "read", 1200), Tally("orders", "late_applied", 2)], [WrittenPart("changes", "p", 7)])
    >>> line(Ended(3, "1 file", report, lambda seconds: None), 1.25)
    'run 3: 1 file, 1,200 records, 7 changes, 2 late, 1.2 s'
    """
    tallies = add_up(ended.report.tallies).items()
    records = sum(tally.records for (_, what), tally in tallies if what == READ)
    late = sum(tally.records for (_, what), tally in tallies if what in LATE)
    changes = max(sum(part.records for part in ended.report.parts if part.output == output) for output in (CHANGES, TO))
    counts = f"{counted(records, 'record')}, {counted(changes, 'change')}"
    return f"run {ended.number}: {ended.read}, {counts}, {late:,} late, {seconds:.1f} s"
