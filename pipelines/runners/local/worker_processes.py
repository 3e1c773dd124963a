"""Processes that evaluate the functions of a graph side by side: the elements of a root go to whichever is free.

The first is a fork of the job's process, with all its modules, where that is safe, else a fresh interpreter; the others are forks
of the first. When the job's process ends in whatever way, so do they.
"""

import gc
import json
import os
import signal
import sys
from collections import deque
from collections.abc import Iterator
from contextlib import suppress
from multiprocessing import Pipe
from multiprocessing.connection import Connection, wait
from pathlib import Path
from typing import Any, Final

from apache_beam.internal import cloudpickle_pickler
from apache_beam.io.filesystems import FileSystems
from apache_beam.options.pipeline_options import PipelineOptions

from beam_joins.pipelines.runners.child_processes import (
    GRACE_SECONDS,
    begin_work,
    classes_of_main,
    end,
    end_with_parent,
    fork_is_safe,
    keep_memory,
    put_into_main,
    redirect,
    work_and_exit,
)
from beam_joins.pipelines.runners.job_failure import JobFailed, user_failure
from beam_joins.pipelines.runners.local.bundles import Bundles, Encoded, Made, failure_text
from beam_joins.pipelines.runners.local.pipeline_graph import Graph, pickled, unpickled
from beam_joins.pipelines.runners.local.shuffle import Shuffle

_LISTS: Final = 32
"""The number of lists into which the elements of a root are split for each process: a free one takes the next."""
_FRESH: Final = (
    "import json, sys; sys.path[:] = json.loads(sys.argv[2]);"
    " from beam_joins.pipelines.runners.local import worker_processes; worker_processes.main()"
)
_LOST: Final = "a Python worker process ended in the middle of the job, out of memory or by a crash in a library."
Metrics = list[tuple[str, bytes]]


class WorkerProcesses:
    """So many processes, which wait for a graph; what they write to stderr goes to ``log``. Ends them at the end of the block."""

    def __init__(self, count: int, options: PipelineOptions, log: Path) -> None:
        pairs = [Pipe() for _ in range(count)]
        self._pipes, theirs = [ours for ours, _ in pairs], [each for _, each in pairs]
        self._log = log
        sys.stdout.flush()
        sys.stderr.flush()
        if fork_is_safe():
            self._first = os.fork()
            if self._first == 0:
                for pipe in self._pipes:
                    pipe.close()
                _serve_all(theirs, options, log, os.getppid())
        else:
            # not by multiprocessing, which would run the main script of the job once more
            for pipe in theirs:
                os.set_inheritable(pipe.fileno(), True)
            numbers = ",".join(str(pipe.fileno()) for pipe in theirs)
            command = [sys.executable, "-c", _FRESH, numbers, json.dumps([str(place) for place in sys.path])]
            self._first = os.posix_spawn(sys.executable, command, os.environ)
            values = options.get_all_options(drop_default=True, retain_unknown_options=True)
            self._pipes[0].send_bytes(cloudpickle_pickler.dumps((values, classes_of_main(), log, os.getpid())))
        for pipe in theirs:
            pipe.close()

    def __enter__(self) -> "WorkerProcesses":
        return self

    def __exit__(self, *failure: object) -> None:
        for pipe in self._pipes:
            pipe.close()
        if failure[0] is not None:
            with suppress(ProcessLookupError):
                os.kill(self._first, signal.SIGKILL)
        end([self._first], GRACE_SECONDS)

    def evaluate(self, graph: Graph) -> Metrics:
        """Evaluate a graph to its end; gives the metrics of its functions.

        Raises JobFailed, whose message is for a terminal, when a function raises or a process ends.
        """
        try:
            return self._evaluated(graph)
        except (EOFError, OSError) as error:
            raise JobFailed(_LOST, log=self._log, user=False) from error

    def _evaluated(self, graph: Graph) -> Metrics:
        for_all = pickled(graph)
        for pipe in self._pipes:
            pipe.send_bytes(for_all)
        turns = _Turns(graph, len(self._pipes))
        free, busy = [*self._pipes], dict[Connection, int]()
        within = dict[Connection, int]()
        while True:
            waiting = list[Connection]()
            for pipe in free:
                if (task := turns.next_task(within.get(pipe))) is None:
                    waiting.append(pipe)
                    continue
                root, elements = task
                if elements is None:
                    pipe.send((None, None, None))
                else:
                    pipe.send((root, turns.sides(root) if within.get(pipe) != root else None, elements))
                within[pipe], busy[pipe] = root, root
            if not busy:
                break
            free = waiting
            for pipe in map(_connection, wait([*busy])):
                root = busy.pop(pipe)
                made, has_ended = self._received(pipe)
                turns.keep(made)
                if has_ended:
                    del within[pipe]
                    turns.left(root)
                free.append(pipe)
        # the others end with the first
        return [each for pipe in reversed(self._pipes) for each in self._closed(pipe)]

    def _received(self, pipe: Connection) -> Any:
        received, failure = pipe.recv()
        if failure is None:
            return received
        failed = user_failure(failure, self._log)
        raise failed or JobFailed(failure, log=self._log, user=False)

    def _closed(self, pipe: Connection) -> Metrics:
        pipe.send(None)
        closed: Metrics = self._received(pipe)
        return closed


class _Turns:
    """Gives the elements of roots to processes; a root ends when all that began with it have left it."""

    def __init__(self, graph: Graph, processes: int) -> None:
        self._shuffle, self._processes = Shuffle(graph), processes
        self._elements = dict[int, deque[list[Encoded]]]()
        self._within = dict[int, int]()
        self.sides, self.keep = self._shuffle.sides, self._shuffle.keep

    def next_task(self, within: int | None) -> tuple[int, list[Encoded] | None] | None:
        """The root and the next elements for a process that is free; without elements it leaves its root. ``None``: it waits."""
        if within is not None:
            elements = self._elements[within]
            return within, elements.popleft() if elements else None
        while (root := next((root for root, elements in self._elements.items() if elements), None)) is None:
            if (root := self._shuffle.next_root()) is None:
                return None
            self._elements[root] = deque(self._shuffle.elements(root, _LISTS * self._processes))
            if not self._elements[root]:
                self._end(root)
        self._within[root] = self._within.get(root, 0) + 1
        return root, self._elements[root].popleft()

    def left(self, root: int) -> None:
        """A process has left a root."""
        self._within[root] -= 1
        if not self._within[root] and not self._elements[root]:
            self._end(root)

    def _end(self, root: int) -> None:
        del self._elements[root]
        self._shuffle.ended(root)


def main() -> None:
    """Serve at the pipes whose numbers are the first argument, as a fresh interpreter."""
    pipes = [Connection(int(number)) for number in sys.argv[1].split(",")]
    values, classes, log, parent = cloudpickle_pickler.loads(pipes[0].recv_bytes())
    put_into_main(classes)
    _serve_all(pipes, PipelineOptions.from_dictionary(values), log, parent)


def _serve_all(pipes: list[Connection], options: PipelineOptions, log: Path, parent: int) -> None:
    """Serve at the first pipe, and at each other in a fork."""

    def work() -> None:
        signal.signal(signal.SIGINT, signal.SIG_IGN)
        for number in (signal.SIGTERM, signal.SIGHUP):
            signal.signal(number, signal.SIG_DFL)
        redirect(log)
        keep_memory()
        end_with_parent(parent)
        FileSystems.set_options(options)
        gc.freeze()  # the collector would copy every page that the processes share
        mine, first, others = pipes[0], os.getpid(), list[int]()
        for pipe in pipes[1:]:
            if (child := os.fork()) == 0:
                end_with_parent(first)
                mine, others = pipe, []
                break
            others.append(child)
        for pipe in pipes:
            if pipe is not mine:
                pipe.close()
        _serve(mine)
        for child in others:
            os.waitpid(child, 0)

    work_and_exit(work)


def _serve(pipe: Connection) -> None:
    """Evaluate elements of roots as they come, until the pipe closes."""
    begin_work()
    bundles: Bundles | None = None
    try:
        bundles = Bundles(unpickled(pipe.recv_bytes()))
        for answer in _answers(bundles, pipe):
            pipe.send((answer, None))
    except EOFError:
        return
    except Exception as error:
        text = failure_text(error, bundles)
        pipe.send((None, text))
        print(text, file=sys.stderr)


def _answers(bundles: Bundles, pipe: Connection) -> Iterator[tuple[Made, bool] | Metrics]:
    """The elements that are to be kept, after each list of elements of a root and after its end; and at last the metrics."""
    within: int | None = None
    while (asked := pipe.recv()) is not None:
        root, sides, elements = asked
        if elements is None:
            bundles.end()
        else:
            if within is None:
                bundles.begin(root, sides)
            bundles.process(elements)
        within = root
        yield bundles.taken(), elements is None
    bundles.close()
    yield [*bundles.metrics()]


def _connection(each: Any) -> Connection:
    connection: Connection = each
    return connection
