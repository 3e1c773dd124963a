"""Options by the names that earlier versions gave them: in hints on unknown options, and in the states of those versions."""

from collections.abc import Container, Iterable, Mapping
from typing import Final

from beam_joins.options.operations import DELETES

_NOW: Final = {
    "timestamp": "timestamp-by",
    "sequence": "sequence-by",
    "position": "sequence-by",
    "schema": "schema-overrides",
    "delete-column": "apply-as-deletes",
    "deletes": "apply-as-deletes",
    "delete-values": "apply-as-deletes",
    "upserts": "apply-as-upserts",
    "output-as": "output-records",
}
"""The options of before by their names, without the side that they are of, and their names now."""
_SAME: Final = ("timestamp", "sequence", "schema")
"""Those among them that have the same values."""
_AS_IN: Final = {"deletes": "=op=d,x", "delete-values": "=op=d,x", "upserts": "=op=c,u"}
"""The form of a value now, where another one was."""


def name_now(name: str, names: Container[str]) -> str | None:
    """The option among ``names`` that an earlier version gave another name, as it is written now; ``None`` for other names.

    >>> name_now("--left-delete-column", {"--left-apply-as-deletes"}), name_now("--deletes", {"--apply-as-deletes"})
    ('--left-apply-as-deletes', '--apply-as-deletes=op=d,x')
    """
    for before, now in _NOW.items():
        side = name.removesuffix(before)
        if side != name and (not side or side.endswith("-")) and f"{side}{now}" in names:
            return f"{side}{now}{_AS_IN.get(before, '')}"
    return None


def options_now(stored: Mapping[str, str], now: Mapping[str, str], sides: Iterable[str]) -> dict[str, str]:
    """The options in the state of an earlier version as they are written now; ``sides`` are the beginnings of their names, as in
    ``--left-``. Where the options of ``now`` mean the same as those of that version in another form, they are in that form.

    >>> before = {"--left-schema": "", "--left-sequence": "lsn", "--left-delete-column": "op", "--left-deletes": "d,x"}
    >>> options_now(before, {}, ["--left-"])
    {'--left-schema-overrides': '', '--left-sequence-by': 'lsn', '--left-apply-as-deletes': 'op=d,x'}
    """
    options = dict(stored)
    for side in sides:
        if f"{side}schema" in stored:
            options = _side_now(options, now, side)
    if "--changes" in options:  # which had one form at first
        options["--output-records"] = options.pop("--output-as", options.get("--output-records", "changes"))
    return options


def _side_now(options: dict[str, str], now: Mapping[str, str], side: str) -> dict[str, str]:
    options = {f"{side}{_NOW[name]}" if (name := each.removeprefix(side)) in _SAME else each: value for each, value in options.items()}
    if (column := options.pop(f"{side}delete-column", None)) is not None:
        listed = {name: options.pop(f"{side}{name}", None) for name in ("deletes", "upserts", "ignored")}
        words = {name: [each.strip().lower() for each in text.split(",")] for name, text in listed.items() if text is not None}
        deletes = words.get("deletes", sorted(DELETES.difference(*words.values())))
        of_column = {"apply-as-deletes": deletes, "apply-as-upserts": words.get("upserts"), "ignored": words.get("ignored")}
        options |= {f"{side}{name}": f"{column}={','.join(values)}" for name, values in of_column.items() if column and values}
        if not column or ("deletes" not in words and now.get(f"{side}apply-as-deletes") == column):
            options[f"{side}apply-as-deletes"] = column
    if not options.get(f"{side}table"):
        options.pop(f"{side}table", None)
    if (unavailable := now.get(f"{side}unavailable-value")) is not None:  # no state had it
        options[f"{side}unavailable-value"] = unavailable
    if options.get(f"{side}format") == "wal2json" and now.get(f"{side}format") == "slot":
        options[f"{side}format"] = "slot"
    return options
