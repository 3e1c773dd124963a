"""Plain tables of rows: files without the columns that options name by default for the time, the sequence and the operation."""

import re
from collections.abc import Collection, Sequence
from dataclasses import replace
from typing import Final

from beam_joins.options.operations import DELETES, NULL, UPSERTS, word
from beam_joins.pipelines.changelogs.changelog_files import look_into
from beam_joins.pipelines.changelogs.inspected_changelog import Changelog
from beam_joins.pipelines.commands.command_spec import Side

_WORDS: Final = {
    "timestamp": {
        "time",
        "timestamp",
        "datetime",
        "date",
        "at",
        "ts",
        "updated",
        "modified",
        "created",
        "changed",
        "inserted",
        "when",
    },
    "sequence": {"lsn", "scn", "csn", "gtid", "seq", "sequence", "offset", "position", "version", "xid", "txid", "commit", "binlog"},
    "delete": {
        "op",
        "operation",
        "action",
        "change",
        "cdc",
        "dml",
        "rowkind",
        "delete",
        "deleted",
        "deletion",
        "removed",
        "tombstone",
    },
}
"""Words in the names of columns that may be what the absent one is."""
_IN_NAME: Final = re.compile(r"[A-Z]?[a-z]+|[A-Z]+")


def without_absent_defaults(
    sides: Sequence[Side], by_default: Collection[str], changelogs: Sequence[Changelog]
) -> tuple[tuple[Changelog, ...], list[str]]:
    """The changelogs, without the time, the sequence and the operation where only the default of an option names their
    columns and no file has them, with a remark for each; ``by_default``: the options that nobody gave.

    The time orders the rows then, or the last row of a key counts, and none is a delete. Only of files that say their
    columns, which could have no such column by another name, and the sequence of rows with times only of all sides
    together, as positions are compared.
    """
    lacking = [_lacking(side, by_default, changelog) for side, changelog in zip(sides, changelogs, strict=True)]
    without_sequence = all(
        "sequence" in lacks or changelog.columns.sequence is None for lacks, changelog in zip(lacking, changelogs, strict=True)
    )
    made, remarks = list[Changelog](), list[str]()
    for side, lacks, changelog in zip(sides, lacking, changelogs, strict=True):
        columns, said = changelog.columns, dict[str | None, str]()
        if "timestamp" in lacks:
            said[columns.timestamp] = f"the rows have no time ({side.flag('timestamp_by')}=)"
            columns = replace(columns, timestamp=None)
        if "sequence" in lacks and (without_sequence or columns.timestamp is None):
            orders = "the time orders the rows" if columns.timestamp else "the last row of a key counts"
            said[columns.sequence] = f"{orders} ({side.flag('sequence_by')}=)"
            columns = replace(columns, sequence=None)
        is_plain = columns.sequence is None or side.dest("sequence_by") not in by_default
        if "delete" in lacks and is_plain:
            said[columns.delete] = f"no row is a delete ({side.flag('apply_as_deletes')}=)"
            columns = replace(columns, delete=None)
        if said:
            first, last = ", ".join([*said.values()][:-1]), [*said.values()][-1]
            meaning = f"{first} and {last}" if first else last
            of_exports = "" if columns.is_ordered or len(changelog.files) == 1 else f"; whole exports are for {side.flag('snapshots')}"
            remarks.append(f"{changelog.name} have no column {' or '.join(map(repr, said))}: {meaning}{of_exports}")
        made.append(look_into(changelog.name, changelog.files, columns) if said else changelog)
    return tuple(made), remarks


def _lacking(side: Side, by_default: Collection[str], changelog: Changelog) -> set[str]:
    """Which of ``timestamp``, ``sequence`` and ``delete`` the files do not have, under any name."""
    said = [[name for name, _ in file.reader.types(file)] for file in changelog.files]
    if changelog.columns.enveloped or not all(said):
        return set()
    names = {name for of_file in said for name in of_file}
    words = {part.lower() for name in names for part in _IN_NAME.findall(name)}
    columns = changelog.columns
    defaults = {"timestamp": ("timestamp_by", columns.timestamp), "sequence": ("sequence_by", columns.sequence)}
    defaults["delete"] = ("apply_as_deletes", columns.delete)
    lacks = {
        what
        for what, (option, column) in defaults.items()
        if side.dest(option) in by_default and column not in names and not words & _WORDS[what]
    }
    has_other_sequence = columns.sequence not in {None, *names} and "sequence" not in lacks
    if "timestamp" in lacks and (columns.truncates or has_other_sequence or changelog.columns_of_times()):
        lacks.discard("timestamp")
    return lacks - ({"delete"} if _has_operations(changelog, names) else set())


def _has_operations(changelog: Changelog, names: Collection[str]) -> bool:
    """Whether a column holds nothing but words for deletes, inserts and updates, other than those for true and false."""
    held = ({word(row.get(name)) for row in changelog.first} - {NULL} for name in names)
    return any(words <= DELETES | UPSERTS and words - {"true", "false", "t", "f"} for words in held)
