"""Redirects the output of runners into a log file; the terminal stays free for the job's own."""

import logging
import sys
import tempfile
import threading
import time
import traceback
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

# Loggers that tell how a job reaches its runner; a job's author has no use for them on a terminal.
_MACHINERY = ("apache_beam.runners", "apache_beam.utils.subprocess_server")
_ROOT_CALLER = "portable_runner.py"
_READER = "wait_until_finish_read"  # Beam's thread that reads a job's messages, and fails when the job server ends
_READER_SECONDS = 5.0


def new_log_file(runner: str) -> Path:
    """A path for a new log in the directory for temporary files, named after the runner."""
    handle, name = tempfile.mkstemp(prefix=time.strftime(f"beam-{runner}-%Y%m%d-%H%M%S-"), suffix=".log")
    open(handle, "wb").close()
    return Path(name)


@contextmanager
def machinery_into(log: Path) -> Iterator[None]:
    """Sends records of Beam's runner and failures of its threads to `log` instead of the terminal during the
    block.
    """
    file = logging.FileHandler(log, encoding="utf-8")
    file.setFormatter(logging.Formatter("%(asctime)s %(levelname)s %(name)s: %(message)s"))
    root, hook = logging.getLogger(), threading.excepthook
    loggers = {logger: logger.propagate for logger in map(logging.getLogger, _MACHINERY)}

    def only_the_jobs(record: logging.LogRecord) -> bool:
        # Beam writes a job's messages with the root logger; a filter of the root sees only such records.
        return record.filename != _ROOT_CALLER or not file.handle(record)

    def only_the_jobs_threads(failure: Any) -> None:
        if "grpc" not in failure.exc_type.__module__:
            hook(failure)
            return
        lines = traceback.format_exception(failure.exc_type, failure.exc_value, failure.exc_traceback)
        file.handle(logging.makeLogRecord({"name": "thread", "levelname": "INFO", "msg": "".join(lines)}))

    for logger in loggers:
        logger.propagate = False
        logger.addHandler(file)
    root.addFilter(only_the_jobs)
    threading.excepthook = only_the_jobs_threads
    try:
        yield
    finally:
        for thread in threading.enumerate():
            if thread.name == _READER:
                thread.join(_READER_SECONDS)
        threading.excepthook = hook
        root.removeFilter(only_the_jobs)
        for logger, propagate in loggers.items():
            logger.removeHandler(file)
            logger.propagate = propagate
        file.close()


def tell(line: str) -> None:
    """Writes a line to the terminal."""
    print(line, file=sys.stderr, flush=True)
