"""Keeps the files that are read and the results that are written apart: no result takes the place of an input, or is one of a
later run.
"""

from collections.abc import Collection, Iterable
from typing import Final, NamedTuple

import apache_beam as beam

from beam_joins.errors import InputError
from beam_joins.pipelines.base.path_patterns import finds, linked

_PATHS: Final = "_beam_joins_paths"
"""The name under which a pipeline has the paths that its transforms read and write."""


class _Written(NamedTuple):
    """The path of a result, the files that it replaces, and, where each run writes it, the path of a file of a run."""

    path: str
    replaced: Collection[str]
    of_run: str | None


class _Paths:
    """The paths of a pipeline: the files that are read, with all links resolved, the patterns that find them, and the results."""

    def __init__(self) -> None:
        self.read = dict[str, str]()
        self.patterns = list[str]()
        self.written = list[_Written]()

    def require_apart(self, result: _Written, files: Iterable[str], patterns: Iterable[str]) -> None:
        """Raise InputError for a result in the place of a file, and for one that a pattern finds in a later run."""
        refuse_inputs(result.path, files, result.replaced)
        for pattern in patterns:
            if result.of_run is not None and finds(pattern, result.of_run):
                raise InputError(f"{pattern} would read what is written to {result.of_run}: give the result another path")


def _paths_of(pipeline: beam.Pipeline) -> _Paths:
    paths: _Paths = pipeline.__dict__.setdefault(_PATHS, _Paths())
    return paths


def reads_files(pipeline: beam.Pipeline, pattern: str, files: Iterable[str]) -> None:
    """Takes note of files that a pattern finds and a pipeline reads. Raises InputError if the pipeline writes a result in the
    place of one, or one that the pattern finds in a later run.
    """
    paths, files = _paths_of(pipeline), list(files)
    for result in paths.written:
        paths.require_apart(result, files, [pattern])
    paths.read |= {linked(file): file for file in files}
    paths.patterns.append(pattern)


def writes_files(pipeline: beam.Pipeline, path: str, replaced: Collection[str], of_run: str | None = None) -> None:
    """Takes note of a result that a pipeline writes, the files that it replaces and, of a pipeline that runs again with a state,
    the path of a file of this run. Raises InputError as :func:`reads_files`, and for a path that is written already.
    """
    paths, result = _paths_of(pipeline), _Written(path, replaced, of_run)
    if any(linked(path) == linked(each.path) for each in paths.written):
        raise InputError(f"{path} is written twice in this pipeline: give each result its own path")
    paths.require_apart(result, paths.read.values(), paths.patterns)
    paths.written.append(result)


def refuse_inputs(path: str, inputs: Iterable[str], replaced: Iterable[str]) -> None:
    """Raise InputError if a result takes the place of an input: of its file, or of one that it replaces as an earlier part of it."""
    places = {*map(linked, replaced)}
    for file in inputs:
        if linked(file) in places:
            shown = path if linked(file) == linked(path) else f"{file}, which {path} would replace as a part of an earlier result,"
            raise InputError(f"{shown} is an input: give the result another name")
