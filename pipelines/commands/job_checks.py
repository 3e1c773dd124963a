"""Checks a job before it runs: its columns are there, and the keys of its two changelogs can meet."""

from collections.abc import Sequence

from beam_joins.columns.compared import ComparedColumn
from beam_joins.errors import InputError
from beam_joins.pipelines.changelogs.inspected_changelog import Changelog
from beam_joins.pipelines.changelogs.sampling import is_time
from beam_joins.pipelines.changelogs.time_units import require_one_unit
from beam_joins.pipelines.commands.job import Job
from beam_joins.pipelines.formats.read_plan import Kind


def check(job: Job, *, in_runs: bool = False) -> None:
    """Raise InputError for columns that are not there, those of both sides at once, and for keys that could never meet;
    ``in_runs``: also for rows that no column orders.
    """
    missing = list[str]()
    for side, changelog in enumerate(job.changelogs):
        columns, other = changelog.columns, next((each for each in job.changelogs if each is not changelog), None)
        of_record = (
            *(("key", column) for column in columns.key),
            ("timestamp_by", columns.timestamp),
            *(("sequence_by", column) for column in (columns.sequence, *columns.within)),
            ("apply_as_deletes", columns.delete),
            ("apply_as_truncates", columns.truncate),
            ("ignored", columns.ignore),
            *(("schema", column) for column, _ in (changelog.columns.declared if changelog.files else ())),
            *(("column_formats", column) for column, _ in (columns.csv.formats if changelog.files else ())),
        )
        named = [(columns.flag(option), column) for option, column in of_record if column is not None]
        if side == 0:
            named += [("--foreign-key", column) for column in job.foreign_key]
            named += [] if job.keeps is None else [(job.keeps.option, job.keeps.column)]
        try:
            changelog.require_all(named, in_runs=in_runs, is_first=job.is_first(side), other=other)
        except InputError as error:
            missing.append(str(error))
    if missing:
        raise InputError("; ".join(missing))
    for side, changelog in enumerate(job.changelogs):
        job.require_unaltered(side, changelog.columns.key)
    if job.keeps is not None and job.keeps.column in job.changelogs[0].columns.about_the_change():
        raise InputError(f"{job.keeps.option}: '{job.keeps.column}' is about the change and no column of the row")
    for side, share in job.shares.items():
        changelog = job.changelogs[side]
        taken = changelog.remembered if share.columns is None else [column for column, _ in share.columns]
        if changelog.table is None and (share.columns is None or share.allowed is not None):
            taken = [column for column in taken if column not in changelog.remembered]
        changelog.require_all([("--select", column) for column in taken], is_first=job.is_first(side))
        if (added := job.added(side)) is not None and any(added in row for row in (*changelog.first, changelog.remembered)):
            raise InputError(f"{job.changelogs[side].name} have a column '{added}' already: {job.spec.rename}")
    if len(job.changelogs) == 2:
        _check_pair(job, *job.changelogs)


def _check_pair(job: Job, left: Changelog, right: Changelog) -> None:
    """Raise InputError for changelogs whose keys or positions could never meet."""
    ordered = [each.columns for each in (left, right) if each.columns.is_ordered]
    if len({each.sequence is None for each in ordered}) > 1:
        flags = " and ".join(each.columns.flag("sequence_by") for each in (left, right))
        raise InputError(f"{flags} must both name a column or both be empty: positions are compared")
    require_one_unit(left, right)
    columns, keys = job.foreign_key or left.columns.key, right.columns.key
    if len(columns) != len(keys):
        option = "--foreign-key" if job.foreign_key else left.columns.flag("key")
        raise InputError(
            f"{option} is of {_counted(columns)} and {right.columns.flag('key')} of {_counted(keys)}: "
            "name as many, in the order in which they meet"
        )
    for column, of_key in zip(columns, keys, strict=True):
        reference, key = left.kind_of(column), right.kind_of(of_key)
        _check_compared(job, left.compared(column), right.compared(of_key), reference, key)
        if (units := _units_of_texts((left, column), (right, of_key))) is not None:
            raise InputError(
                f"the {left.name}' column '{column}' is {units[0]} and the {right.name}' column '{of_key}' {units[1]}: their keys "
                "are texts with the digits of the unit of events, and would not meet: write both as events of one unit"
            )
        times = [is_time(dict(each.types).get(name, "")) for each, name in ((left, column), (right, of_key))]
        if reference == key and True in times and times[0] != times[1]:
            reference, key = ("times" if held else "whole numbers" for held in times)
        if reference and key and reference != key:
            raise InputError(
                f"the {left.name}' column '{column}' holds {reference} and the {right.name}' column "
                f"'{of_key}' {key}: {job.spec.no_match}"
            )
    if not job.foreign_key and (kinds := job.kinds())[0] != kinds[1]:  # one side is read again, by another key
        held = (f"of the {each.name} hold {' and '.join(kind)}" for each, kind in zip((left, right), kinds, strict=True))
        raise InputError(f"keys {', those '.join(held)}: {job.spec.no_match}")


def _check_compared(
    job: Job, one: ComparedColumn | None, other: ComparedColumn | None, reference: Kind | None, key: Kind | None
) -> None:
    """Raise InputError for columns of a database that it compares otherwise than the join would."""
    if one is None or other is None:
        return
    try:
        compared = one.compared_with(other)
    except ValueError as error:
        raise InputError(str(error)) from error
    pair = f"{one.words} and {other.words}"
    if reference != key:
        raise InputError(f"{pair}, whose keys are {reference} and {key}: {job.spec.no_match}; {one.made_one_with(other)}")
    if not job.foreign_key and reference == "text" and (compared.left or compared.right):
        keys = ",".join(job.changelogs[0].columns.key)
        raise InputError(f"{pair}, of which equal values may have unlike texts: join them with --foreign-key {keys}")


def _units_of_texts(*keys: tuple[Changelog, str]) -> list[str] | None:
    """The types of two columns of times whose event keys are texts by the unit, where these cannot meet."""
    of_events = [any(column in schema.names for schema in changelog.evidence.types) for changelog, column in keys]
    types = [
        next((str(schema.field(column).type) for schema in changelog.evidence.types if column in schema.names), None)
        or dict(changelog.types).get(column, "")
        for changelog, column in keys
    ]
    differ = any(of_events) and (len({*types}) > 1 or not all(of_events))
    return types if differ and all("time" in each for each in types) else None


def _counted(columns: Sequence[str]) -> str:
    return f"the column {columns[0]}" if len(columns) == 1 else f"the columns {', '.join(columns)}"
