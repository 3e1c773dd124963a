"""Marks in the folder of a state: of a run that has written to a table elsewhere, until its commit removes it; and of the last run,
as the table has it.
"""

import json
from collections.abc import Mapping, MutableMapping
from dataclasses import dataclass
from functools import partial
from typing import Any, Final, Self, TypeAlias

from xxhash import xxh3_64_hexdigest

from beam_joins.errors import InputError
from beam_joins.transforms.connect.runs import Handed, StateFolder

Mark: TypeAlias = Mapping[str, Any]
"""What a state remembers of a table that its last run has written, as JSON has it: by it the next run knows the table."""
REPLACED: Final = "anew"
"""The mark of a run that has replaced all rows of a table."""
_MARKS: Final = "tables written"


class NotAsLeft(InputError):
    """A table is not as the last run has left it."""

    def __init__(self, table: str, how: str) -> None:
        super().__init__(f"{table} is not as the last run with this state has left it: {how}")


def last_mark(inputs: Mapping[str, Any], table: str) -> Mark | None:
    """The mark of the last run for a table, in the ``inputs`` of a state; ``None`` where they have none."""
    mark: Mark | None = inputs.get(_MARKS, {}).get(table)
    return mark


def remember(inputs: MutableMapping[str, Any], table: str, mark: Mark) -> None:
    """Have a state remember the mark of a run in its ``inputs``, which are stored if the run is committed."""
    inputs[_MARKS] = {**inputs.get(_MARKS, {}), table: mark}


@dataclass(frozen=True)
class MarkFile:
    """The file by which a worker hands on the mark of a run for a ``table`` to the state; ``last`` is that of the last run."""

    handed: Handed
    table: str
    last: Mark | None

    @classmethod
    def of(cls, folder: StateFolder, table: str) -> Self:
        """That of the run of a ``folder``, which remembers the mark when it is committed."""
        file = cls(folder.handed(f"mark of {table}"), table, last_mark(folder.inputs, table))
        folder.before_commit.append(partial(file._remember, folder))
        return file

    def put(self, mark: Mark | None) -> None:
        """Hand on the mark, if the run has one."""
        if mark is not None:
            self.handed.put(json.dumps(mark))

    def _remember(self, folder: StateFolder) -> None:
        if (mark := self.handed.text()) is not None:
            remember(folder.inputs, self.table, json.loads(mark))


@dataclass(frozen=True)
class RunMark:
    """The mark of the run of a ``folder`` for a ``table``; ``what`` the run has done to it."""

    folder: StateFolder
    what: str
    table: str

    @property
    def _name(self) -> str:
        return f"{self.what}-{xxh3_64_hexdigest(self.table.encode())}"

    @property
    def is_set(self) -> bool:
        """Whether this run has set it in an earlier attempt, which has not been committed."""
        return self.folder.files.text(self._name) in ("", str(self.folder.run))  # earlier versions have written no number

    def set(self) -> None:
        """Set it until the run is committed."""
        self.folder.files.put(self._name, str(self.folder.run).encode())
        self.folder.when_committed.append(self._remove)

    def _remove(self) -> None:
        self.folder.files.remove([self._name] if self.folder.files.exists(self._name) else [])


def rows_replaced(folder: StateFolder, table: str, *, anew: bool) -> RunMark:
    """The mark of a run that replaces all rows of a table. Raises InputError if an attempt at this run has done so, and the
    table does not begin ``anew`` in this one, as the pipeline is not the same.
    """
    mark = RunMark(folder, REPLACED, table)
    if not anew and mark.is_set:
        raise InputError(
            f"the table {table} has been made anew by run {folder.run}, which has not ended: repeat it with the pipeline or options "
            "that it had"
        )
    return mark
