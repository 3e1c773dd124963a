"""Optional packages: their users, and the commands that install them."""

import shlex
from collections.abc import Iterator
from contextlib import contextmanager
from importlib.metadata import PackageNotFoundError, requires
from typing import Final, Literal

from beam_joins.errors import InputError

Extra = Literal[
    "delta",
    "ducklake",
    "explain",
    "gcp",
    "kafka",
    "msgpack",
    "openlineage",
    "postgres",
    "prometheus",
    "schema-registry",
    "sql",
    "yaml",
]
_NEEDS: Final[dict[Extra, str]] = {
    "delta": "Delta tables need deltalake",
    "ducklake": "DuckLake needs duckdb",
    "explain": "beam-joins explain needs rich",
    "gcp": "BigQuery needs google-cloud-bigquery",
    "kafka": "Kafka needs confluent-kafka",
    "msgpack": "MessagePack files need msgpack",
    "openlineage": "--lineage-file needs openlineage-python",
    "postgres": "PostgreSQL needs psycopg",
    "prometheus": "--metrics-file needs prometheus-client",
    "schema-registry": "schema_registry= needs the client of confluent-kafka",
    "sql": "SQL needs datafusion and sqlglot",
    "yaml": "Beam YAML needs the packages of apache-beam[yaml]",
}


class MissingExtra(InputError, ImportError):
    """A package of an extra that is not installed. The message is one sentence with the command that installs it."""


@contextmanager
def needs(extra: Extra) -> Iterator[None]:
    """Turns an ImportError of the block, which imports packages of an extra, into :class:`MissingExtra`."""
    try:
        yield
    except ModuleNotFoundError:
        raise missing(extra) from None
    except ImportError as error:  # it is there, and lacks something itself
        raise missing(extra, f", which cannot be imported ({(str(error).splitlines() or [''])[0]})") from error


def missing(extra: Extra, why: str = "") -> MissingExtra:
    """The error that names the user of an extra, and the command that installs its packages.

    >>> str(missing("postgres")).partition(": ")[0]
    'PostgreSQL needs psycopg'
    """
    return MissingExtra(f"{_NEEDS[extra]}{why}: {installing(extra)}")


def installing(extra: Extra) -> str:
    """The command that installs the packages of an extra, and no others: an installation may lack some that it does not need."""
    try:
        needed = [each.split(";")[0].strip() for each in requires("beam-joins") or () if each.endswith(f'extra == "{extra}"')]
    except PackageNotFoundError:  # a clone
        needed = []
    return shlex.join(["pip", "install", *(needed or [f"beam-joins[{extra}]"])])
