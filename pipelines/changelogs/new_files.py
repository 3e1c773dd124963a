"""Watches a folder for new files; a file that is still growing waits for a later look."""

from collections.abc import Sequence

from beam_joins.pipelines.formats.file_parts import File


class NewFiles:
    """Decides which files are complete: those whose size and time have not changed since the last look.

    >>> growing, whole = (File(path=f"{n}.csv", bytes=n, shown="", format="csv", written=7) for n in (1, 2))
    >>> arrivals = NewFiles()
    >>> arrivals.whole([growing, whole])
    []
    >>> [file.path for file in arrivals.whole([File(path="1.csv", bytes=9, shown="", format="csv", written=8), whole])]
    ['2.csv']
    """

    def __init__(self) -> None:
        self._seen: dict[str, tuple[int, int]] = {}

    def whole(self, files: Sequence[File]) -> list[File]:
        """The files among all present ones that have not changed since the last call."""
        before, self._seen = self._seen, {file.path: (file.bytes, file.written) for file in files}
        return [file for file in files if before.get(file.path) == self._seen[file.path]]
