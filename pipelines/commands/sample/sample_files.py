"""Sample changelogs that behave like real ones: ``python -m pipelines.sample --orders 20000 --customers 2000
--seed 1 --out DIR``.

See :mod:`beam_joins.pipelines.commands.sample.shop` for what happens in them. The same arguments give the
same bytes on every machine.
"""

import sys
import time
from argparse import ArgumentTypeError
from collections.abc import Sequence
from heapq import heappop, heappush
from pathlib import Path
from typing import Any, BinaryIO, Final, Literal, NamedTuple, Protocol

import orjson
from fastavro.write import Writer

from beam_joins.errors import InputError
from beam_joins.pipelines.base.input_error import os_sentence
from beam_joins.pipelines.commands.program import Parser, program
from beam_joins.pipelines.commands.sample.shop import CustomerChange, OrderChange, SampleLine, Shop

PROGRAM: Final = program("sample")
Format = Literal["avro", "jsonl"]
FORMATS: Final[tuple[Format, ...]] = ("avro", "jsonl")
DEFAULT_ORDERS: Final = 20_000
DEFAULT_CUSTOMERS: Final = 2_000
DEFAULT_SEED: Final = 1


class SampleFiles(NamedTuple):
    """Where the two changelogs lie."""

    orders: Path
    customers: Path


def write_sample(
    directory: Path,
    *,
    orders: int = DEFAULT_ORDERS,
    customers: int = DEFAULT_CUSTOMERS,
    seed: int = DEFAULT_SEED,
    format: Format = "jsonl",
) -> SampleFiles:
    """Write ``orders.<format>`` and ``customers.<format>`` into the directory; either both appear, whole, or
    neither.

    ``orders`` and ``customers`` are the numbers of lines (records) of the two files, repeated ones counted.
    Memory does not grow with ``orders``; a customer takes some bytes.

    Raises:
        ValueError: a negative number, or a format that is none of FORMATS.
        InputError: another run writes them.
        OSError: the directory cannot be written.
    """
    if format not in FORMATS:
        raise ValueError(f"format must be one of {', '.join(FORMATS)}, not {format!r}")
    from beam_joins.pipelines.results.publication import appear_whole  # noqa: PLC0415, it imports Beam, which --help does without

    shop = Shop(orders=orders, customers=customers, seed=seed)
    directory.mkdir(parents=True, exist_ok=True)
    files = SampleFiles(directory / f"orders.{format}", directory / f"customers.{format}")
    with appear_whole(*files) as ((order_file, customer_file), _):
        write_order = JsonLines(order_file) if format == "jsonl" else Avro(order_file, ORDER_SCHEMA)
        write_customer = JsonLines(customer_file) if format == "jsonl" else Avro(customer_file, CUSTOMER_SCHEMA)
        late_orders, late_customers = LateLines(write_order), LateLines(write_customer)
        for line in shop.lines():
            (late_orders if isinstance(line.change, OrderChange) else late_customers).add(line)
        late_orders.close()
        late_customers.close()
    return files


def sample_on_first_use(directory: Path) -> SampleFiles:
    """The default sample as JSON lines; written if it is not there yet."""
    files = SampleFiles(directory / "orders.jsonl", directory / "customers.jsonl")
    if files.orders.exists() and files.customers.exists():
        return files
    return write_sample(directory)


class Sink(Protocol):
    """Takes the rows of one table in the order in which they are to be written."""

    def write(self, row: dict[str, Any]) -> None:
        """Write one row."""

    def close(self) -> None:
        """Write the rest; the caller closes the file."""


class LateLines:
    """Moves late lines back by the number of lines they say; holds only those."""

    def __init__(self, sink: Sink) -> None:
        self._sink = sink
        self._held: list[tuple[int, int, OrderChange | CustomerChange]] = []
        self._said = 0

    def add(self, line: SampleLine) -> None:
        """Write the line or hold it, and write those whose turn has come."""
        self._said += 1
        if line.late:
            heappush(self._held, (self._said + line.late, self._said, line.change))
        else:
            self._sink.write(row_of(line.change))
        while self._held and self._held[0][0] <= self._said:
            self._sink.write(row_of(heappop(self._held)[2]))

    def close(self) -> None:
        """Write the rows that are held."""
        while self._held:
            self._sink.write(row_of(heappop(self._held)[2]))
        self._sink.close()


class JsonLines:
    """Writes one JSON object a line."""

    def __init__(self, file: BinaryIO) -> None:
        self._file = file

    def write(self, row: dict[str, Any]) -> None:
        """Write one row."""
        self._file.write(orjson.dumps(row, option=orjson.OPT_APPEND_NEWLINE))

    def close(self) -> None:
        """Write the remaining rows."""
        self._file.flush()


class Avro:
    """Writes an Avro file in which nothing is left to chance: a fixed sync marker, no compression."""

    def __init__(self, file: BinaryIO, schema: dict[str, Any]) -> None:
        self._writer = Writer(file, schema, codec="null", sync_marker=b"beam_joinssample")

    def write(self, row: dict[str, Any]) -> None:
        """Write one row."""
        self._writer.write(row)

    def close(self) -> None:
        """Write the remaining rows."""
        self._writer.flush()


def row_of(change: OrderChange | CustomerChange) -> dict[str, Any]:
    """The columns of a line; the amount in units of the currency.

    >>> row_of(OrderChange(1, None, 1205, "paid", "u", 7, 8))
    {'order_id': 1, 'customer_id': None, 'amount': 12.05, 'status': 'paid', 'op': 'u', 'lsn': 7, 'updated_at': 8}
    """
    row: dict[str, Any] = dict(zip(change._fields, change, strict=True))
    if row.get("amount") is not None:
        row["amount"] /= 100
    return row


def avro_schema(name: str, /, **columns: Any) -> dict[str, Any]:
    """A record schema; columns are nullable but for those that every line has."""
    always = {"op": "string", "lsn": "long", "updated_at": {"type": "long", "logicalType": "timestamp-micros"}}
    fields: list[dict[str, Any]] = [{"name": column, "type": ["null", type_], "default": None} for column, type_ in columns.items()]
    fields += [{"name": column, "type": type_} for column, type_ in always.items()]
    return {"type": "record", "name": name, "fields": fields}


ORDER_SCHEMA: Final = avro_schema("Order", order_id="long", customer_id="long", amount="double", status="string")
CUSTOMER_SCHEMA: Final = avro_schema("Customer", customer_id="long", name="string", city="string", segment="string")


def _folder(path: str) -> Path:
    if "://" in path:
        raise ArgumentTypeError(f"{path} is not on this machine: name a local directory")
    return Path(path)


def main(argv: Sequence[str] | None = None) -> int:
    """The command line; returns the exit code."""
    parser = Parser(
        prog=PROGRAM,
        description="Write two changelogs of a made-up shop, orders and customers, with everything that real ones "
        "have: updates, deletes, late, "
        "repeated and unsorted lines, references to unknown customers, skew. The same arguments give the same bytes on every machine.",
        epilog=f"example:\n  {PROGRAM} --orders 1000000 --customers 100000 --out big-sample",
    )
    parser.add_argument("--orders", type=int, default=DEFAULT_ORDERS, metavar="N", help="lines about orders (default: %(default)s)")
    parser.add_argument(
        "--customers", type=int, default=DEFAULT_CUSTOMERS, metavar="M", help="lines about customers (default: %(default)s)"
    )
    parser.add_argument(
        "--seed", type=int, default=DEFAULT_SEED, metavar="S", help="another seed, other changes (default: %(default)s)"
    )
    parser.add_argument(
        "--out", type=_folder, required=True, metavar="DIR", help="the local directory for the two files; made if it is not there"
    )
    parser.add_argument("--format", choices=FORMATS, default="jsonl", help="default: %(default)s")
    options = parser.parse_args(argv)
    if options.orders < 0 or options.customers < 0:
        parser.error("--orders and --customers must be 0 or more")
    start = time.monotonic()
    try:
        files = write_sample(options.out, orders=options.orders, customers=options.customers, seed=options.seed, format=options.format)
    except (InputError, OSError) as error:
        reason = os_sentence(str(options.out), error) if isinstance(error, OSError) else error
        print(f"{PROGRAM}: cannot write the sample: {reason}", file=sys.stderr)
        return 2
    seconds = time.monotonic() - start
    for path, lines in zip(files, (options.orders, options.customers), strict=True):
        print(f"{path}  {lines:,} lines, {path.stat().st_size:,} bytes")
    print(f"written in {seconds:.1f} s")
    return 0
