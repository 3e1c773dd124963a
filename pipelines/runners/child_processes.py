"""Child processes of a job: whether it may be forked, what they take from it, and how they end."""

import ctypes
import logging
import os
import signal
import sys
import threading
import time
import traceback
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Final, NoReturn

import pyarrow as pa
from apache_beam.internal import cloudpickle_pickler

GRACE_SECONDS: Final = 5.0
_M_TRIM_THRESHOLD, _M_MMAP_THRESHOLD, _M_ARENA_MAX = -1, -3, -8  # of glibc's malloc.h
_PR_SET_PDEATHSIG: Final = 1


def fork_is_safe() -> bool:
    """Whether this process may be forked: on Linux, no other Python thread, and no thread of gRPC's."""
    if sys.platform != "linux" or threading.active_count() > 1:
        return False
    names = set()
    for task in os.listdir("/proc/self/task"):
        try:
            names.add(Path("/proc/self/task", task, "comm").read_text("utf-8").strip())
        except OSError:
            continue
    return not any(name.startswith(("grpc", "event_engine", "lifeguard")) for name in names)


def classes_of_main() -> dict[str, bytes]:
    """The classes that the script which is running has defined, pickled by value, each under its name.

    Beam pickles functions of the main script by value, but elements of its classes name their class.
    """
    classes = {}
    for name, value in vars(sys.modules["__main__"]).items():
        if isinstance(value, type) and value.__module__ == "__main__":
            try:
                classes[name] = cloudpickle_pickler.dumps(value)
            except Exception:  # what cannot be pickled is not in an element either
                continue
    return classes


def put_into_main(classes: Mapping[str, bytes]) -> None:
    """Define those classes in the main module of this process."""
    for name, pickled in classes.items():
        try:
            setattr(sys.modules["__main__"], name, cloudpickle_pickler.loads(pickled))
        except Exception:  # it is an error only where an element needs the class, and is raised there
            continue


def keep_memory() -> None:
    """Makes this process and its forks keep freed memory for reuse, instead of returning it to the system after every array.

    Measured in a join on columns: half of the workers' time in the kernel was for new pages.
    """
    if sys.platform == "linux":
        libc = ctypes.CDLL(None)
        for option, value in ((_M_MMAP_THRESHOLD, 32 << 20), (_M_TRIM_THRESHOLD, 64 << 20), (_M_ARENA_MAX, 1)):
            if hasattr(libc, "mallopt"):
                libc.mallopt(option, value)
        pa.set_memory_pool(pa.system_memory_pool())


def end_with_parent(parent: int) -> None:
    """Have this process end when its parent does, which has this number."""
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
        if os.getppid() != parent:
            os._exit(1)


def end(pids: list[int], grace: float) -> None:
    """Waits so long for these children to end, then terminates them, then kills them."""
    for number, seconds in ((0, grace), (signal.SIGTERM, 2.0), (signal.SIGKILL, 60.0)):
        for pid in pids if number else ():
            os.kill(pid, number)
        until = time.monotonic() + seconds
        while pids and time.monotonic() < until:
            pids = [pid for pid in pids if os.waitpid(pid, os.WNOHANG) == (0, 0)]
            time.sleep(0.01 if pids else 0)


def redirect(log: Path | None) -> None:
    """Redirects stdin to nothing and stderr to the log, if there is one."""
    for handler in logging.getLogger().handlers:
        handler.flush()
    to_log = () if log is None else ((2, log, os.O_WRONLY | os.O_APPEND | os.O_CREAT),)
    for number, path, flags in ((0, os.devnull, os.O_RDONLY), *to_log):
        file = os.open(path, flags, 0o644)
        os.dup2(file, number)
        os.close(file)
    # for as long as the process lives; the job's may be another file
    sys.stderr = open(2, "w", buffering=1, closefd=False)  # noqa: SIM115


def begin_work() -> None:
    """Write whole lines, and draw other random numbers than the process that this one is forked from."""
    if hasattr(sys.stdout, "reconfigure"):
        sys.stdout.reconfigure(line_buffering=True)
    if "numpy" in sys.modules:
        sys.modules["numpy"].random.seed()


def work_and_exit(work: Callable[[], None]) -> NoReturn:
    """Work, and end this process, which is a fork and has nothing else to end; what is raised is written to stderr."""
    code = 1
    try:
        work()
        code = 0
    except BaseException:
        traceback.print_exc()
    finally:
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(code)
