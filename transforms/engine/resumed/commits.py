"""Commits of runs to a folder: each replaces the manifest, by way of a journal, so that the
next process that opens the folder finishes a commit that was cut off.

In a store a lease keeps runs apart, which a run that stands still loses: so the manifest and the journal are written on the
condition that they are still those that were read.
"""

from collections.abc import Sequence

from beam_joins.errors import StateRefused
from beam_joins.transforms.engine.files.stored_files import move
from beam_joins.transforms.engine.resumed.manifest import (
    JOURNAL,
    MANIFEST,
    Manifest,
    read_journal,
    read_manifest,
    write_journal,
    write_manifest,
)
from beam_joins.transforms.engine.resumed.state_files import StateFiles

_ANOTHER = "another run has been committed to {} meanwhile"
_LATER = "later runs have been committed meanwhile, perhaps behind this one, which stood still: run it again with the same records"


class Commits:
    """The manifest of a folder as one run has read it, and the commit of that run."""

    def __init__(self, files: StateFiles) -> None:
        self._files = files
        self._text: str | None = None
        self._version: str | None = None
        self._manifest = ""  # of this run
        self._journal: str | None = None  # of this run, which counts once it is written

    def read(self) -> Manifest | None:
        """Read the manifest, ``None`` before the first commit; a commit of this run replaces that one. Raises
        :class:`~beam_joins.coders.CorruptData`.
        """
        self._text, self._version = self._files.text_version(MANIFEST)
        return None if self._text is None else self._manifest_of(self._text)

    def _manifest_of(self, text: str) -> Manifest:
        return read_manifest(text, self._files.path(MANIFEST))

    @property
    def may_count(self) -> bool:
        """Whether the commit of this run has begun, and has not ended."""
        return self._journal is not None

    def is_last(self) -> bool:
        """Whether the manifest is still as it was read."""
        return self._files.text(MANIFEST) == self._text

    def require_last(self) -> None:
        """Raise :class:`StateRefused` if another run has been committed since the manifest was read, or is about to be."""
        if self._files.exists(JOURNAL) or not self.is_last():
            raise self.refused(_ANOTHER)

    def refused(self, why: str) -> StateRefused:
        """The refusal of this run, which counts for nothing; ``why`` has braces for the folder."""
        return StateRefused(f"{why.format(self._files.root)}: this one counts for nothing, run it again")

    def _overtaken(self, now: str | None) -> StateRefused:
        """The refusal of a run whose journal was written, where the manifest is ``now`` that of another one."""
        if now is None or self._manifest_of(now).run <= self._manifest_of(self._manifest).run:
            return self.refused(_ANOTHER)
        return StateRefused(f"{self._files.root}: {_LATER}")

    def replace(self, manifest: Manifest) -> None:
        """Replace the manifest at once, for a state of the same runs.

        Raises :class:`StateRefused` for a state that is not the last.
        """
        self.require_last()
        if not self._files.put_over(MANIFEST, write_manifest(manifest).encode(), self._version):
            raise self.refused(_ANOTHER)
        self._files.sync([MANIFEST])
        self.read()

    def begin(self, manifest: Manifest, moves: Sequence[tuple[str, str]]) -> None:
        """Write the journal of a commit, which renames files, ``(from, to)``, and replaces the manifest. Raises
        :class:`StateRefused` for a run that is not behind the last one.
        """
        self._manifest = write_manifest(manifest)
        self._journal = write_journal(self._manifest, moves)
        if not self._files.put_over(JOURNAL, self._journal.encode(), None):
            self._journal = None
            raise self.refused(_ANOTHER)
        self._files.sync([JOURNAL])
        if (now := self._files.text(MANIFEST)) not in (self._text, self._manifest):
            self._remove(self._journal)
            raise self._overtaken(now)

    def finish(self) -> Manifest:
        """Carry out the commit that has begun, if nobody else has, and give its manifest. Raises :class:`StateRefused` if another
        run has come first in the same moment.
        """
        if self._files.text(JOURNAL) == self._journal:
            self.recover()
        self._text = self._files.text(MANIFEST)
        if self._text is None or self._text != self._manifest:
            raise self._overtaken(self._text)
        self._journal = None
        return self._manifest_of(self._text)

    def recover(self) -> None:
        """Finish a commit that was cut off, whosever it is. Raises :class:`~beam_joins.coders.CorruptData`."""
        journal = self._files.text(JOURNAL)
        if journal is None:
            return
        manifest, moves = read_journal(journal, self._files.path(JOURNAL))
        now, version = self._files.text_version(MANIFEST)
        if now not in (None, manifest) and self._manifest_of(now or "").run >= self._manifest_of(manifest).run:
            self._remove(journal)  # written too late to count
            return
        for source, target in moves:
            move(source, target)
        if self._files.text(JOURNAL) == journal:  # else another process has finished it, and another run may have been committed
            self._files.put_over(MANIFEST, manifest.encode(), version)  # else another process has finished it just now
            self._files.sync([MANIFEST])
            self._remove(journal)

    def _remove(self, journal: str) -> None:
        if self._files.text(JOURNAL) == journal:
            self._files.remove([JOURNAL])
