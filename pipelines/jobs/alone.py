"""A job whose run stands alone, or is only looked at: its files found and looked into, its results checked, before anything runs."""

from argparse import Namespace
from collections.abc import Iterable

from beam_joins.pipelines.changelog_files.changelog import find_changelog
from beam_joins.pipelines.changelog_files.outputs import Output, check_output, refuse_inputs
from beam_joins.pipelines.changelog_files.paths import real
from beam_joins.pipelines.command.input_error import InputError
from beam_joins.pipelines.jobs.job import Job
from beam_joins.pipelines.jobs.names import Names
from beam_joins.pipelines.jobs.options import columns_of, envelopes_of, layout_given, what_is_made
from beam_joins.pipelines.jobs.pipeline import CHANGES, LATEST
from beam_joins.pipelines.jobs.runs_options import changes_pattern


def job_alone(names: Names, own: Namespace, *, look_bytes: int = 0, make: bool = True) -> tuple[Job, tuple[Output, ...]]:
    """The job and its results. Raises InputError.

    ``look_bytes`` says how much of a file is looked at, 0 as much as is needed; ``make``: directories for the results, and whatever else the command makes on first use.
    """
    if any(side.path(own) is None for side in names.sides) and not names.without_path:
        raise InputError(f"give {' and '.join(f'--{side.path_option}' for side in names.sides)}: a file or a glob")
    names.prepare(own)
    places = {CHANGES: changes_pattern(own.changes) if own.changes else own.output, LATEST: own.latest}
    if not any(places.values()):
        raise InputError("give --output, --latest or both, for what the run gives")
    _refuse_same({"--output": own.output, "--latest": own.latest, "--json": None if own.json == "-" else own.json}.items())
    flags = {CHANGES: "--output", LATEST: "--latest"}
    formats = {(name, path): check_output(flags[name], path, make=make) for name, path in places.items() if path}
    changelogs = tuple(
        find_changelog(
            side.name,
            side.path(own),
            columns_of(side, own),
            layout_given(side, own),
            envelopes_of(side, own),
            look_bytes,
            folders=bool(own.state_dir),
        )
        for side in names.sides
    )
    for path in [path for _, path in formats] + [own.json] * (own.json not in (None, "-")):
        refuse_inputs(path, [file.path for changelog in changelogs for file in changelog.files])
    job = Job(names=names, changelogs=changelogs, one_file=not own.parts, **what_is_made(names, own))
    job.check()
    return job, tuple(job.output(name, path, format_) for (name, path), format_ in formats.items())


def _refuse_same(paths: Iterable[tuple[str, str | None]]) -> None:
    seen: dict[str, str] = {}
    for option, path in paths:
        if path and (other := seen.setdefault(real(path), option)) != option:
            raise InputError(f"{other} and {option} are both {path}: give them different names")
