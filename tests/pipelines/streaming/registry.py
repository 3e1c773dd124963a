"""A schema registry on loopback, as far as readers and writers ask one."""

import base64
import copy
import io
import json
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from threading import Thread
from typing import Any
from urllib.parse import unquote, urlsplit

import fastavro


@dataclass
class Registry:
    """What a registry holds; `url` is its address. `dropped` is how many requests it first does not answer,
    `busy` how many it then answers with 503, `user` who may ask (NAME:PASSWORD).
    """

    url: str = ""
    schemas: dict[int, dict[str, Any]] = field(default_factory=dict)
    subjects: dict[str, int] = field(default_factory=dict)
    asked: list[str] = field(default_factory=list)
    dropped: int = 0
    busy: int = 0
    user: str = ""
    incompatible: bool = False

    @classmethod
    @contextmanager
    def started(cls) -> Iterator["Registry"]:
        registry = cls()
        server = ThreadingHTTPServer(("127.0.0.1", 0), _handler(registry))
        registry.url = f"http://127.0.0.1:{server.server_port}"
        thread = Thread(target=server.serve_forever, args=(0.05,))
        thread.start()
        try:
            yield registry
        finally:
            server.shutdown()
            server.server_close()
            thread.join()

    def put(self, number: int, schema: Any, *references: str, subject: str = "", kind: str | None = None) -> None:
        """Hold a schema, also as the first version of a subject; references are types in the subjects of
        their names.
        """
        to = [{"name": name, "subject": name, "version": 1} for name in references]
        text = schema if isinstance(schema, str) else json.dumps(schema)
        self.schemas[number] = {"schema": text} | ({"references": to} if to else {}) | ({"schemaType": kind} if kind else {})
        if subject:
            self.subjects[subject] = number

    def register(self, path: str, text: str) -> tuple[int, Any]:
        """The status and the body for a schema that is registered at a path."""
        self.asked.append(path)
        _, subject, _ = path.strip("/").split("/")
        if self.incompatible:
            return 409, {"error_code": 409, "message": "Schema being registered is incompatible with an earlier schema"}
        number = next((each for each, held in self.schemas.items() if held["schema"] == text), len(self.schemas) + 1)
        self.put(number, text, subject=subject)
        return 200, {"id": number}

    def answer(self, path: str, user: str) -> tuple[int, Any]:
        """The status and the body for a path."""
        self.asked.append(path)
        if self.busy:
            self.busy -= 1
            return 503, {"error_code": 50301, "message": "not yet"}
        if user != self.user:
            return 401, {"error_code": 40101, "message": "Unauthorized"}
        match path.strip("/").split("/"):
            case ["schemas", "ids", number]:
                actual = self.schemas.get(int(number))
                return (200, actual) if actual else (404, {"error_code": 40403, "message": "Schema not found"})
            case ["subjects", subject, "versions", "1"] if subject in self.subjects:
                number = self.subjects[subject]
                return 200, {"subject": subject, "version": 1, "id": number, **self.schemas[number]}
        return 404, {"error_code": 40401, "message": "Subject not found"}


def _handler(registry: Registry) -> type[BaseHTTPRequestHandler]:
    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            if registry.dropped:
                registry.dropped -= 1
                return
            user = base64.b64decode(self.headers.get("Authorization", "").removeprefix("Basic ")).decode()
            self._send(*registry.answer(unquote(urlsplit(self.path).path), user))

        def do_POST(self) -> None:
            body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
            self._send(*registry.register(unquote(urlsplit(self.path).path), body["schema"]))

        def _send(self, status: int, body: Any) -> None:
            data = json.dumps(body).encode()
            self.send_response(status)
            self.send_header("Content-Type", "application/vnd.schemaregistry.v1+json")
            self.send_header("Content-Length", str(len(data)))
            self.end_headers()
            self.wfile.write(data)

        def log_message(self, format: str, *args: Any) -> None:
            pass

    return Handler


def encoded(number: int, record: Any, schema: Any) -> bytes:
    """A value as Confluent's serializer writes it."""
    body = io.BytesIO()
    fastavro.schemaless_writer(body, fastavro.parse_schema(copy.deepcopy(schema)), record)
    return bytes([0]) + number.to_bytes(4, "big") + body.getvalue()
