"""Optional packages: their users, and the commands that install them."""

import json
import shlex
from collections.abc import Iterator
from contextlib import contextmanager
from importlib.metadata import distributions
from typing import Any, Final, Literal
from urllib.parse import unquote, urlsplit

from beam_joins.errors import InputError

Extra = Literal["delta", "ducklake", "gcp", "kafka", "msgpack", "openlineage", "postgres", "prometheus", "schema-registry", "yaml"]
_NEEDS: Final[dict[Extra, str]] = {
    "delta": "Delta tables need deltalake",
    "ducklake": "DuckLake needs duckdb",
    "gcp": "BigQuery needs google-cloud-bigquery",
    "kafka": "Kafka needs confluent-kafka",
    "msgpack": "MessagePack files need msgpack",
    "openlineage": "--lineage-file needs openlineage-python",
    "postgres": "PostgreSQL needs psycopg",
    "prometheus": "--metrics-file needs prometheus-client",
    "schema-registry": "schema_registry= needs the client of confluent-kafka",
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
    """The error that names the user of an extra, and the command that installs the extra.

    >>> str(missing("postgres")).partition(": ")[0]
    'PostgreSQL needs psycopg'
    """
    return MissingExtra(f"{_NEEDS[extra]}{why}: {installing(extra)}")


def installing(extra: Extra) -> str:
    """The command that adds an extra to this installation, from where that came."""
    notes = (each.read_text("direct_url.json") for each in distributions(name="beam-joins"))  # a clone has one without
    origin = next(filter(None, notes), None)
    return f"pip install {_requirement(extra, None if origin is None else json.loads(origin))}"


def _requirement(extra: Extra, origin: dict[str, Any] | None) -> str:
    """The requirement that pip is to install; ``origin`` is pip's record of the installation (PEP 610).

    >>> _requirement("kafka", None)
    "'beam-joins[kafka]'"
    >>> _requirement("kafka", {"url": "file:///src/beam%20joins", "dir_info": {"editable": True}})
    "--editable '/src/beam joins[kafka]'"
    >>> _requirement("kafka", {"url": "https://host/b.git", "vcs_info": {"vcs": "git", "commit_id": "1f"}})
    "'beam-joins[kafka] @ git+https://host/b.git@1f'"
    """
    if origin is None:
        return shlex.quote(f"beam-joins[{extra}]")
    url = urlsplit(origin["url"])
    if "dir_info" in origin and url.scheme == "file":
        editable = "--editable " * bool(origin["dir_info"].get("editable"))
        return f"{editable}{shlex.quote(f'{unquote(url.path)}[{extra}]')}"
    of_vcs = origin.get("vcs_info")
    whole = origin["url"] if of_vcs is None else f"{of_vcs['vcs']}+{origin['url']}@{of_vcs['commit_id']}"
    return shlex.quote(f"beam-joins[{extra}] @ {whole}")
