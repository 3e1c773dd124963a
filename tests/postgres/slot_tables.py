"""Tables read from a slot, and the same from the database."""

import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from typing import Any

import apache_beam as beam
import psycopg
from apache_beam.options.pipeline_options import PipelineOptions
from apache_beam.runners.portability.fn_api_runner import FnApiRunner

from beam_joins import LatestTable
from beam_joins.io import ReadPostgres
from beam_joins.transforms.connect.runs import ReplayOptions

Rows = list[tuple[Any, ...]]
_collected: list[tuple[str, tuple[Any, ...]]] = []


def database(postgres: str, name: str, *statements: str) -> str:
    """A database of its own on the server, with a slot `s` of the publication `s` of all tables."""
    with psycopg.connect(postgres, autocommit=True) as connection:
        connection.execute(f"CREATE DATABASE {name}")
    conninfo = postgres.replace("dbname=postgres", f"dbname={name}")
    run(conninfo, *statements, "CREATE PUBLICATION s FOR ALL TABLES")
    run(conninfo, f"SELECT pg_create_logical_replication_slot('{name}', 'pgoutput')")
    return conninfo


def run(conninfo: str, *statements: str) -> None:
    """Each statement in a transaction of its own."""
    with psycopg.connect(conninfo, autocommit=True) as connection:
        for statement in statements:
            connection.execute(statement)


def asked(conninfo: str, query: str) -> Rows:
    """What the database answers, in order."""
    with psycopg.connect(conninfo) as connection:
        return sorted(connection.execute(query).fetchall())


def tables(
    conninfo: str, names: Sequence[str], state: object, again: str = "", *, rebuilds: bool = False, **options: Any
) -> dict[str, Rows]:
    """The rows of tables after a run that goes on with a state, as they are in the table's columns; ``again`` is the label of a
    transform whose table is read again; ``rebuilds``: the pipeline may have changed.
    """
    _collected.clear()
    run(conninfo, "CHECKPOINT")  # only what has been flushed is decoded
    slot = psycopg.conninfo.conninfo_to_dict(conninfo)["dbname"]
    settings = PipelineOptions([] if state is None else [f"--beam_joins_state={state}", "--beam_joins_partitions=2"])
    if rebuilds:
        settings.view_as(ReplayOptions).beam_joins_changed = "rebuild"
    if again:
        settings.view_as(ReplayOptions).beam_joins_read_again = [again]
    with beam.Pipeline(runner=FnApiRunner(), options=settings) as pipeline:
        read = pipeline | "read" >> ReadPostgres(conninfo, slot=str(slot), publication="s", tables=list(names), **options)
        for name in names:
            _ = read[name] | f"latest {name}" >> LatestTable() | f"collect {name}" >> beam.Map(_collect, name)
    return {name: sorted(row for table, row in _collected if table == name) for name in names}


def _collect(element: Any, name: str) -> None:
    rows = [element[1]] if isinstance(element, tuple) else [row["value"] for row in element.to_pylist()]
    _collected.extend((name, tuple(row.values())) for row in rows)


@contextmanager
def writing(conninfo: str, write: Callable[[psycopg.Connection[Any], int], None], writers: int = 2) -> Iterator[None]:
    """Within the block writers are at work; ``write`` does a transaction, given a number of its own."""
    stop, failed = threading.Event(), list[BaseException]()

    def work(writer: int) -> None:
        try:
            with psycopg.connect(conninfo, autocommit=True) as connection:
                number = writer
                while not stop.is_set():
                    with suppress(psycopg.errors.DeadlockDetected):  # of two that wait for each other the server ends one
                        write(connection, number)
                    number += writers
        except BaseException as error:
            failed.append(error)

    threads = [threading.Thread(target=work, args=[n]) for n in range(writers)]
    for thread in threads:
        thread.start()
    try:
        yield
    finally:
        stop.set()
        for thread in threads:
            thread.join()
    if failed:
        raise failed[0]
