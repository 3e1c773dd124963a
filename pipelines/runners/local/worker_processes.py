"""Processes that evaluate the functions of a graph side by side: the elements of a root go to whichever is free.

The first is a fork of the job's process, with all its modules, where that is safe, else a fresh interpreter; the others are forks
of the first. When the job's process ends in whatever way, so do they.
"""

import gc
import json
import os
import signal
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
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
from beam_joins.pipelines.runners.local.bundles import Bundles, Made, failure_text
from beam_joins.pipelines.runners.local.pipeline_graph import unpickled
from beam_joins.pipelines.runners.local.shuffle import RootTurns

_FRESH: Final = (
    "import json, sys; sys.path[:] = json.loads(sys.argv[2]);"
    " from beam_joins.pipelines.runners.local import worker_processes; worker_processes.main()"
)
_LOST: Final = "a Python worker process ended in the middle of the job, out of memory or by a crash in a library."
Metrics = list[tuple[str, bytes]]


class WorkerProcesses:
    """So many processes, which wait for a graph; what they write to stderr goes to ``log``. Ends them at the end of the block.

    They are forks of this process as it is now, or fresh interpreters, which start when they are asked for.
    """

    def __init__(self, count: int, options: PipelineOptions, log: Path) -> None:
        pairs = [Pipe() for _ in range(count)]
        self._pipes, self._theirs = [ours for ours, _ in pairs], [each for _, each in pairs]
        self._options, self._log = options, log
        self._first: int | None = None
        self.have_worked = False
        """Whether they have begun with a graph, which is the only one."""
        self._has_begun = fork_is_safe()
        if self._has_begun:
            self._fork()

    @property
    def are_forks(self) -> bool:
        """Whether they are forks of this process."""
        return self._has_begun

    def __enter__(self) -> "WorkerProcesses":
        return self

    def __exit__(self, *failure: object) -> None:
        for pipe in (*self._pipes, *self._theirs):
            pipe.close()
        if failure[0] is not None or not self._has_begun:
            self.kill()
        if self._first is not None:
            end([self._first], GRACE_SECONDS)

    def kill(self) -> None:
        """Have them end in the middle of their work."""
        if self._first is not None:
            with suppress(ProcessLookupError):
                os.kill(self._first, signal.SIGKILL)

    def begin_within(self, seconds: float | None) -> bool:
        """Start them, if they have not, and wait so long for them, or for as long as it takes; gives whether they can evaluate.

        Raises JobFailed when they end before.
        """
        if self._first is None:
            self._start_fresh()
        with self._lost():
            self._has_begun = self._has_begun or (self._pipes[0].poll(seconds) and self._pipes[0].recv())
        return self._has_begun

    def _fork(self) -> None:
        sys.stdout.flush()
        sys.stderr.flush()
        self._first = os.fork()
        if self._first == 0:
            for pipe in self._pipes:
                pipe.close()
            _serve_all(self._theirs, self._options, self._log, os.getppid())
        self._close_theirs()

    def _start_fresh(self) -> None:
        # not by multiprocessing, which would run the main script of the job once more
        for pipe in self._theirs:
            os.set_inheritable(pipe.fileno(), True)
        numbers = ",".join(str(pipe.fileno()) for pipe in self._theirs)
        command = [sys.executable, "-c", _FRESH, numbers, json.dumps([str(place) for place in sys.path])]
        self._first = os.posix_spawn(sys.executable, command, os.environ)
        values = self._options.get_all_options(drop_default=True, retain_unknown_options=True)
        self._pipes[0].send_bytes(cloudpickle_pickler.dumps((values, classes_of_main(), self._log, os.getpid())))
        self._close_theirs()

    def _close_theirs(self) -> None:
        for pipe in self._theirs:
            pipe.close()

    def evaluate(self, functions: bytes, turns: RootTurns, beside: Connection | None = None) -> Metrics:
        """Evaluate the turns of a graph, which is pickled, to their end; gives the metrics of its functions. A connection that is
        ``beside`` closes when the process at its other end takes no more turns.

        Raises JobFailed, whose message is for a terminal, when a function raises or a process ends.
        """
        self.have_worked = True
        self.begin_within(None)
        with self._lost():
            return self._evaluated(functions, turns, beside)

    @contextmanager
    def _lost(self) -> Iterator[None]:
        """Raise JobFailed where a process has ended."""
        try:
            yield
        except (EOFError, OSError) as error:
            raise JobFailed(_LOST, log=self._log, user=False) from error

    def _evaluated(self, functions: bytes, turns: RootTurns, beside: Connection | None) -> Metrics:
        for pipe in self._pipes:
            pipe.send_bytes(functions)
        others = () if beside is None else (beside,)
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
            if not busy and not others:
                break
            free = waiting
            for pipe in map(_connection, wait([*busy, *others])):
                if pipe in others:
                    others = ()
                    continue
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


def main() -> None:
    """Serve at the pipes whose numbers are the first argument, as a fresh interpreter."""
    pipes = [Connection(int(number)) for number in sys.argv[1].split(",")]
    values, classes, log, parent = cloudpickle_pickler.loads(pipes[0].recv_bytes())
    put_into_main(classes)
    pipes[0].send(True)
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
