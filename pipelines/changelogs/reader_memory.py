"""The memory of a reader in Python: with a state it reads the files that no run has read."""

import atexit
import logging
import tempfile
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any, Final, TypeAlias

import apache_beam as beam
from apache_beam.pvalue import PBegin

from beam_joins.pipelines.base.input_error import NoFile, NoWholeFile
from beam_joins.pipelines.base.paths import none_at, remove_directory
from beam_joins.pipelines.base.progress import counted
from beam_joins.pipelines.changelogs.compared_snapshots import compared
from beam_joins.pipelines.changelogs.input_memory import InputMemory
from beam_joins.pipelines.changelogs.inspected_changelog import Changelog
from beam_joins.pipelines.changelogs.processed_files import NewFiles
from beam_joins.pipelines.changelogs.read_table import table_label
from beam_joins.pipelines.formats.changelog_columns import Columns
from beam_joins.pipelines.formats.file_parts import File
from beam_joins.pipelines.results.paths_in_use import reads_files
from beam_joins.transforms.connect.runs import Handed, StateFolder, before_run, folder_for, label_of

_READ: Final = "read by"
"""The name under which a state has the memory of a reader, with the label of the transform."""
_log: Final = logging.getLogger(__name__)
_ARRIVALS: Final = "_beam_joins_arrivals"
"""The name under which a pipeline has the files that readers see in rounds."""
Earlier = Callable[[Mapping[str, Any], str], dict[str, Any]]
"""Gives the memory of a reader of a label in the ``inputs`` of a state whose version had another form of it."""
Find: TypeAlias = Callable[[], Sequence[File]]
"""Gives the files of a path."""


class Arrivals:
    """The files that the readers of pipelines see in rounds. They leave those that have changed since the round before to a later
    one; ``at_once``: they read all that are there.
    """

    def __init__(self, *, at_once: bool) -> None:
        self._at_once, self._files, self._finds = at_once, NewFiles(), dict[str, Find]()

    def next_look(self) -> None:
        """A round begins."""
        self._files.next_look()

    def looked_at_by(self, pipeline: beam.Pipeline) -> None:
        """Have the readers of a pipeline look for files here."""
        setattr(pipeline, _ARRIVALS, self)

    def found(self, place: str, name: str, find: Find, columns: Columns) -> tuple[Sequence[File], Sequence[File]]:
        """All files of a reader, and those among them that it may read."""
        self._finds[place], files = find, find()
        whole = self._files.whole(name, files, columns)
        return files, files if self._at_once else whole

    @property
    def has_unknown(self) -> bool:
        """Whether a reader has seen files that were not there in the round before."""
        return self._files.has_unknown

    @property
    def have_more(self) -> bool:
        """Whether there are files that no reader has seen in this round: they may belong together with those that one has."""
        return not all(self._files.has_seen(find()) for find in self._finds.values())


class ReaderMemory(InputMemory):
    """The memory of a reader that is applied at ``begin``; it counts when the run does. A pipeline without a state has none, and
    reads all files.

    ``earlier`` gives the memory that an earlier version has kept. A reader whose table has gone from the pipeline, or is read
    again, remembers nothing.
    """

    def __init__(self, begin: PBegin, name: str, earlier: Earlier) -> None:
        self._pipeline, self._state = begin.pipeline, folder_for(begin)
        label = label_of(begin.pipeline)
        self.table, self._place = table_label(label), f"{_READ} {label}"
        stored: Mapping[str, Any] = {}
        inputs: Mapping[str, Any] = {} if self._state is None else self._state.inputs
        is_read_again = self._state is not None and self._state.plan.is_read_again(self.table)
        read_before = inputs.get(self._place, {}).get("files", ()) if is_read_again else ()
        if self._state is not None and not is_read_again:
            if self._place not in inputs:
                stored = earlier(inputs, label)
            elif self._state.plan.had(self.table):
                stored = inputs[self._place]
        super().__init__(name, stored, read_before)
        self._new: Sequence[File] = ()

    @property
    def is_of_runs(self) -> bool:
        """Whether the pipeline has a state."""
        return self._state is not None

    def new(self, find: Find, pattern: str, columns: Columns) -> list[File]:
        """The files among those of a pattern which no run has read, behind parts of others that wait. Raises :class:`NoFile` where
        there is none and was none before, and InputError where the pipeline writes one of them.
        """
        arrivals: Arrivals | None = getattr(self._pipeline, _ARRIVALS, None)
        if arrivals is None:
            files = whole = find()
        else:
            files, whole = arrivals.found(self._place, self._name, find, columns)
        reads_files(self._pipeline, pattern, [file.path for file in files])
        if not files and not len(self.files):
            raise NoFile(f"{self._name}: {none_at(pattern)}")
        if not whole and not len(self.files):
            raise NoWholeFile(f"{self._name}: {pattern} may still grow")
        if gone := self.gone(whole):
            _log.warning("%s is read again without %s of the runs before, not there any more", self._name, counted(gone, "file"))
        self._new = self.unseen(whole)
        if self._state is not None:
            self._state.has_arrivals |= bool(self._new)
        return [*self.waiting(whole), *self._new]

    def of_snapshots(self, changelog: Changelog) -> Changelog:
        """The changes of the new snapshots of a changelog. Raises InputError for one that is not behind the last one."""
        if self._state is None:
            folder = tempfile.mkdtemp(prefix="beam-joins-snapshots-")
            atexit.register(remove_directory, folder)
            made = compared(changelog, None, None, folder).changelog
        else:
            made = self.changes(changelog, self._state, self._place, f"give --beam_joins_read_again={self.table}")
        for remark in made.snapshot_remarks:
            _log.info("%s: %s", self.table, remark)
        return made

    @property
    def left_open(self) -> Handed | None:
        """The file by which a worker hands on the number of deletes whose tombstones are still to come; ``None`` without a state."""
        return None if self._state is None else self._state.handed(f"open deletes of {self._place}")

    def keep(self) -> None:
        """Remember all of it when the run is committed, the new files among it."""
        if self._state is not None:
            before_run(self._pipeline, partial(self.files.add, self._new))
            self._state.before_commit.append(partial(self._commit, self._state))

    def _commit(self, state: StateFolder) -> None:
        self.files.require_unchanged(self._new)
        count = None if self.left_open is None else self.left_open.text()
        self.open_deletes = int(count or self.open_deletes or 0)
        state.inputs[self._place] = self.stored()

    def keep_nothing(self, more: Mapping[str, Any]) -> None:
        """Remember ``more`` alone when the run is committed: its files are read again by the next one."""
        if self._state is not None:
            self._state.inputs[self._place] = dict(more)
