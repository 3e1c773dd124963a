"""The Avro schemas of a registry by their numbers, over confluent-kafka's client, which is imported only
where a registry is used.
"""

import json
from collections.abc import Mapping
from importlib import import_module
from typing import Any, Final, NamedTuple
from urllib.parse import urlsplit

import fastavro

from beam_joins.errors import OutputError, Unavailable
from beam_joins.extras import needs
from beam_joins.pipelines.formats.avro_blocks import avro_reason

_ADDRESS: Final = ("http://", "https://")
_DEFAULTS: Final = {"timeout": 2.0, "max.retries": 3, "retries.wait.ms": 300, "retries.max.wait.ms": 600}
"""A registry that does not answer is given up within ten seconds."""
_REFUSED, _ABSENT, _INCOMPATIBLE = (401, 403), 404, 409


class AvroSchema(NamedTuple):
    """A schema parsed by fastavro, with the named types in it and in the schemas that it refers to."""

    schema: Any
    names: Mapping[str, Any]


class SchemaRegistry:
    """A client of a schema registry, without a cache.

    A request that may succeed later is repeated by the client, three times if the settings do not say
    otherwise.
    """

    def __init__(self, settings: Mapping[str, Any]) -> None:
        self._settings = settings

    def schema(self, number: int) -> AvroSchema:
        """The schema with an id, with those that it refers to.

        Raises ValueError, a sentence, if the registry does not give it, or it is not Avro.
        """
        names: dict[str, Any] = {}
        seen: set[tuple[str, int]] = set()

        def parsed(registered: Any) -> Any:
            if registered.schema_type not in (None, "AVRO"):
                raise ValueError(f"schema {number} is one of {registered.schema_type}: let the connector write with the AvroConverter")
            for other in registered.references or ():
                version = other.subject, other.version
                if version not in seen:
                    seen.add(version)
                    what = f"version {other.version} of {other.subject}, to which schema {number} refers"
                    parsed(self._asked(what, "get_version", *version).schema)
            return _parsed(number, registered.schema_str, names)

        return AvroSchema(parsed(self._asked(f"schema {number}", "get_schema", number)), names)

    def register(self, subject: str, schema: Any) -> int:
        """Register a schema of Avro for a subject, unless it is there; gives its number.

        Raises OutputError, a sentence, if the registry does not take it.
        """
        where = _shown(self._settings["url"])
        try:
            with _client(self._settings) as client:
                made = import_module("confluent_kafka.schema_registry").Schema(json.dumps(schema), "AVRO")
                return int(client.register_schema(subject, made))
        except ImportError:
            raise
        except Exception as error:
            status, text = getattr(error, "http_status_code", None), avro_reason(error)
            if status == _INCOMPATIBLE:
                raise OutputError(
                    f"the registry {where} refuses the schema of {subject}, which is not compatible with the last one ({text}): write "
                    "to another topic, or let the subject have another compatibility"
                ) from error
            remedy = "give credentials in schema_registry=" if status in _REFUSED else "see that the workers reach it, and run again"
            kind = OutputError if status is not None else Unavailable
            raise kind(f"the registry {where} does not register the schema of {subject} ({text}): {remedy}") from error

    def _asked(self, what: str, method: str, *arguments: Any) -> Any:
        try:
            with _client(self._settings) as client:
                return getattr(client, method)(*arguments)
        except ImportError:
            raise
        except Exception as error:  # besides its own errors the client raises those of its libraries
            raise ValueError(_sentence(what, _shown(self._settings["url"]), error)) from error


def registry_settings(registry: str | Mapping[str, Any]) -> dict[str, Any]:
    """The settings of the client, from a URL or from settings with a ``url``.

    Raises ValueError for an address that is none, and a setting that the client does not know, and
    ImportError without the client.
    """
    settings_given = {"url": registry} if isinstance(registry, str) else registry
    url = settings_given.get("url") if isinstance(settings_given, Mapping) else None
    if not isinstance(url, str) or not all(each.strip().startswith(_ADDRESS) for each in url.split(",")):
        raise ValueError("schema_registry=: give the address of the registry (http://HOST:PORT), or settings of which 'url' is one")
    settings = {**_DEFAULTS, **settings_given}
    try:
        with _client({name: value for name, value in settings.items() if not name.startswith("ssl.")}):  # files are the workers'
            pass
    except ImportError:
        raise
    except (TypeError, ValueError) as error:
        raise ValueError(f"schema_registry=: {error}") from error
    return settings


def _client(settings: Mapping[str, Any]) -> Any:
    with needs("schema-registry"):
        module = import_module("confluent_kafka.schema_registry")
    return module.SchemaRegistryClient(dict(settings))


def _parsed(number: int, text: str, names: dict[str, Any]) -> Any:
    try:
        return fastavro.parse_schema(json.loads(text), named_schemas=names)
    except Exception as error:  # fastavro raises whatever it stumbles over
        raise ValueError(f"schema {number} of the registry is no schema of Avro ({avro_reason(error)})") from error


def _shown(url: str) -> str:
    """The URLs without user names and passwords.

    >>> _shown("https://ann:secret@one:8081, http://two/registry")
    'https://one:8081, http://two/registry'
    """
    parts = (urlsplit(each.strip()) for each in url.split(","))
    return ", ".join(f"{part.scheme}://{part.netloc.rpartition('@')[2]}{part.path}" for part in parts)


def _sentence(what: str, where: str, error: Exception) -> str:
    status = getattr(error, "http_status_code", None)
    if status == _ABSENT:
        return f"the registry {where} does not know {what}: give the one with which the topic was written"
    if status in _REFUSED:
        return f"the registry {where} refuses to give {what}: give credentials in schema_registry=, such as basic.auth.user.info"
    return f"the registry {where} does not give {what} ({avro_reason(error)}): see that the workers reach it, and run again"
