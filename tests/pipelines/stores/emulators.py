"""Emulators of S3, of Google Cloud Storage, of Azure Blob Storage and of BigQuery, on this machine; what a client must have in its
environment.
"""

import json
import shutil
import socket
import subprocess
import threading
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any
from urllib.error import HTTPError

from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import rsa

from tests import programs

BUCKETS = ("in", "out", "state")


@contextmanager
def s3(folder: Path, host: str = "127.0.0.1", port: int = 0) -> Iterator[dict[str, str]]:
    """S3, with buckets that are empty."""
    port = port or _free_port()
    address = f"http://{host}:{port}"
    with _started(folder, "moto_server", "-H", host, "-p", str(port), ready=f"{address}/moto-api/"):
        for bucket in BUCKETS:
            _ask(f"{address}/{bucket}-of-tests", b"", "PUT")
        yield {
            "AWS_ACCESS_KEY_ID": "test",
            "AWS_SECRET_ACCESS_KEY": "test",
            "AWS_DEFAULT_REGION": "us-east-1",
            "AWS_ENDPOINT_URL": address,
            "AWS_ALLOW_HTTP": "true",
        }


@contextmanager
def gcs(folder: Path) -> Iterator[dict[str, str]]:
    """Google Cloud Storage, with buckets that are empty, and a server that gives tokens to whoever asks."""
    port = _free_port()
    address = f"http://127.0.0.1:{port}"
    arguments = ("start", "--host=127.0.0.1", f"--port={port}", "--in-memory")
    with _started(folder, "gcp-storage-emulator", *arguments, ready=f"{address}/storage/v1/b?project=p"), _tokens() as tokens:
        for bucket in BUCKETS:
            _ask(f"{address}/storage/v1/b?project=p", json.dumps({"name": f"{bucket}-of-tests"}).encode(), "POST")
        key = folder / "key.json"
        key.write_text(json.dumps(_account(tokens)))
        yield {"STORAGE_EMULATOR_HOST": address, "GOOGLE_CLOUD_PROJECT": "p", "GOOGLE_APPLICATION_CREDENTIALS": str(key)}


AZURE_ACCOUNT = "devstoreaccount1"
_AZURE_KEY = "Eby8vdM02xNOcqFlqUwJPLlmEtlCDXJ1OUzFT50uSRZ6IFsuFq2UVErCz4I6tq/K1SZFPTOtr/KBHBeksoGMGw=="  # the emulator's, of its page
_CONTAINERS = """
import sys
from azure.storage.blob import BlobServiceClient
for name in sys.argv[2:]:
    BlobServiceClient.from_connection_string(sys.argv[1]).create_container(name)
"""


def azure_connection(address: str, account: str = AZURE_ACCOUNT) -> str:
    """What a client needs to know of an emulator of Azure."""
    scheme = address.partition(":")[0]
    return f"DefaultEndpointsProtocol={scheme};AccountName={account};AccountKey={_AZURE_KEY};BlobEndpoint={address}/{account}"


@contextmanager
def azure(folder: Path) -> Iterator[dict[str, str]]:
    """Azure Blob Storage, with containers that are empty."""
    port = _free_port()
    address = f"http://127.0.0.1:{port}"
    node, program = shutil.which("node") or "node", programs.needed("Azurite", programs.azurite())
    options = ("--inMemoryPersistence", "--disableTelemetry", "--skipApiVersionCheck")
    with _started(folder, node, str(program), "--blobPort", str(port), *options, ready=address):
        python = programs.needed("Emulators of stores", programs.emulators()) / "bin" / "python"
        containers = [f"{bucket}-of-tests" for bucket in BUCKETS]
        subprocess.run([python, "-c", _CONTAINERS, azure_connection(address), *containers], check=True)
        yield {"AZURE_STORAGE_CONNECTION_STRING": azure_connection(address)}


_BIGQUERY = """
from bqemulator.storage.engine import DuckDBEngine
DuckDBEngine._load_spatial = lambda self: None  # which it would download
from bqemulator.cli import main
main()
"""


@contextmanager
def big_query(folder: Path) -> Iterator[dict[str, str]]:
    """BigQuery, with a project ``shop``."""
    port = _free_port()
    address = f"http://127.0.0.1:{port}"
    arguments = ("start", "--rest-port", str(port), "--grpc-port", "0", "--project", "shop")
    with _started(folder, "python", "-c", _BIGQUERY, *arguments, ready=f"{address}/bigquery/v2/projects/shop/datasets"):
        yield {"BIGQUERY_EMULATOR_HOST": address}


@contextmanager
def _started(folder: Path, program: str, *arguments: str, ready: str) -> Iterator[None]:
    path = programs.needed("Emulators of stores", programs.emulators()) / "bin" / program  # or a path of its own
    log_file = folder / f"{path.name}.log"
    with log_file.open("wb") as log:
        server = subprocess.Popen([path, *arguments], stdout=log, stderr=log, stdin=subprocess.DEVNULL)
    try:
        answered = threading.Event()
        for _ in range(600):
            try:
                _ask(ready)
                break
            except HTTPError as error:
                if error.code < 500:  # it answers, but to nobody without a signature
                    break
            except OSError:
                assert server.poll() is None, log_file.read_text()
                answered.wait(0.1)
        yield
    finally:
        server.kill()
        server.wait()


def _ask(address: str, data: bytes | None = None, method: str = "GET") -> None:
    headers = {"Content-Type": "application/json"}
    with urllib.request.urlopen(urllib.request.Request(address, data, headers, method=method), timeout=20) as response:
        response.read()


def _free_port() -> int:
    with socket.socket() as bound:
        bound.bind(("127.0.0.1", 0))
        return int(bound.getsockname()[1])


class _Token(BaseHTTPRequestHandler):
    def do_POST(self) -> None:  # the name that the server asks for
        content = json.dumps({"access_token": "any", "expires_in": 3600, "token_type": "Bearer"}).encode()
        self.rfile.read(int(self.headers.get("content-length", 0)))
        self.send_response(200)
        self.send_header("content-type", "application/json")
        self.send_header("content-length", str(len(content)))
        self.end_headers()
        self.wfile.write(content)

    def log_message(self, format: str, *args: Any) -> None:
        pass


@contextmanager
def _tokens() -> Iterator[str]:
    server = ThreadingHTTPServer(("127.0.0.1", 0), _Token)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    yield f"http://127.0.0.1:{server.server_port}/token"
    server.shutdown()


def _account(tokens: str) -> dict[str, str]:
    pem = rsa.generate_private_key(public_exponent=65537, key_size=2048).private_bytes(
        serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    )
    return {
        "type": "service_account",
        "project_id": "p",
        "private_key_id": "1",
        "private_key": pem.decode(),
        "client_email": "a@p.iam.gserviceaccount.com",
        "client_id": "1",
        "token_uri": tokens,
    }
