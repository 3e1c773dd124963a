"""A mark in the folder of a state: a run that has written to a table elsewhere sets it, and its commit removes it."""

from dataclasses import dataclass

from xxhash import xxh3_64_hexdigest

from beam_joins.errors import InputError
from beam_joins.transforms.connect import StateFolder


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
    mark = RunMark(folder, "anew", table)
    if not anew and mark.is_set:
        raise InputError(
            f"the table {table} has been made anew by run {folder.run}, which has not ended: repeat it with the pipeline or options "
            "that it had"
        )
    return mark
