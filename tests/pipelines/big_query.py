"""A server of this process that answers BigQuery's client: tables, loads of Parquet files, and scripts, which DuckDB runs.

DuckDB takes the statements of the writer as they are, but for the quotes of names. Its transactions conflict as BigQuery's do.
"""

import base64
import datetime as dt
import json
import re
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from io import BytesIO
from typing import Any
from urllib.parse import urlsplit

import duckdb
import pyarrow as pa
import pyarrow.parquet as pq

Resource = dict[str, Any]
_TYPES = {
    **{"INTEGER": "BIGINT", "FLOAT": "DOUBLE", "BOOLEAN": "BOOLEAN", "STRING": "VARCHAR", "BYTES": "BLOB", "DATE": "DATE"},
    **{"NUMERIC": "DECIMAL(38, 9)", "BIGNUMERIC": "DECIMAL(38, 20)", "TIME": "TIME", "DATETIME": "TIMESTAMP"},
    "TIMESTAMP": "TIMESTAMP WITH TIME ZONE",
}
_TABLE = r"/projects/([^/]+)/datasets/([^/]+)/tables"


class Refused(Exception):
    """An answer of a status, with a reason and a message."""

    def __init__(self, status: int, reason: str, message: str) -> None:
        super().__init__(message)
        self.status, self.reason = status, reason


class BigQuery:
    """A project with one dataset, ``shop.sales``; ``before`` is called with the method, path and body of each request."""

    def __init__(self) -> None:
        self.before: Callable[[str, str, Any], None] = lambda method, path, body: None
        self.requests: list[str] = []
        self._tables: dict[tuple[str, ...], Resource] = {}
        self._jobs: dict[str, Resource] = {}
        self._rows: dict[str, list[Resource]] = {}
        self._uploads: list[Resource] = []
        self._lock = threading.RLock()
        self._made = 0
        self._database = duckdb.connect()
        self._database.execute("SET GLOBAL TimeZone = 'UTC'; ATTACH ':memory:' AS shop; CREATE SCHEMA shop.sales")

    def arrow(self, query: str) -> pa.Table:
        """The rows of a query of DuckDB."""
        return self._database.cursor().sql(query).to_arrow_table()

    def names(self) -> list[str]:
        """The names of the tables."""
        return sorted(name for _, _, name in self._tables)

    def answer(self, method: str, path: str, body: Any) -> Resource:
        """The answer to a request."""
        self.requests.append(f"{method} {path}")
        self.before(method, path, body)
        if match := re.fullmatch(rf"{_TABLE}/([^/]+)", path):
            return self._table(method, match.groups(), body)
        if match := re.fullmatch(rf"{_TABLE}/([^/]+)/data", path):
            return self._data(match.groups())
        if match := re.fullmatch(_TABLE, path):
            return self.make(body)
        if match := re.fullmatch(r"/projects/shop/datasets/([^/]+)", path):
            self._require_dataset("shop", match[1])
            return {"datasetReference": {"projectId": "shop", "datasetId": match[1]}, "location": "EU"}
        if match := re.fullmatch(r"/projects/shop/jobs", path):
            return self._job(body, lambda: self._query(body["configuration"]["query"]))
        if match := re.fullmatch(r"/projects/shop/(jobs|queries)/(.+)", path):
            return self._results(match[2]) if match[1] == "queries" else self._jobs[match[2]]
        raise Refused(404, "notFound", f"Not found: {method} {path}")

    def make(self, table: Resource) -> Resource:
        """Creates a table."""
        reference = table["tableReference"]
        key = (reference["projectId"], reference["datasetId"], reference["tableId"])
        self._require_dataset(*key[:2])
        with self._lock:
            if key in self._tables:
                raise Refused(409, "duplicate", f"Already Exists: Table {_name(key)}")
            columns = ", ".join(f'"{field["name"]}" {_duckdb_type(field)}' for field in table["schema"]["fields"])
            if table.get("type", "TABLE") == "TABLE":
                self._database.cursor().execute(f"CREATE TABLE {_quoted(key)} ({columns})")
            self._made += 1
            created = str(int(time.time() * 1_000) + self._made)
            self._tables[key] = {"type": "TABLE", **table, "creationTime": created, "location": "EU", "etag": created}
        return self._table("GET", key, None)

    def _require_dataset(self, project: str, dataset: str) -> None:
        if (project, dataset) != ("shop", "sales"):
            raise Refused(404, "notFound", f"Not found: Dataset {project}:{dataset}")

    def _table(self, method: str, key: tuple[str, ...], body: Any) -> Resource:
        if key not in self._tables:
            raise Refused(404, "notFound", f"Not found: Table {_name(key)}")
        table = self._tables[key]
        if method == "DELETE":
            del self._tables[key]
            self._database.cursor().execute(f"DROP TABLE {_quoted(key)}")
            return {}
        if method == "PATCH":
            for field in body["schema"]["fields"][len(table["schema"]["fields"]) :]:
                self._database.cursor().execute(f'ALTER TABLE {_quoted(key)} ADD COLUMN "{field["name"]}" {_duckdb_type(field)}')
            table["schema"] = body["schema"]
        rows = 0 if table["type"] != "TABLE" else self.arrow(f"SELECT count(*) AS n FROM {_quoted(key)}")["n"][0]
        return {**table, "numRows": str(rows)}

    def _data(self, key: tuple[str, ...]) -> Resource:
        fields = self._table("GET", key, None)["schema"]["fields"]
        rows = self.arrow(f"FROM {_quoted(key)}").to_pylist()
        shown = [{"f": [{"v": _shown(field, row[field["name"]])} for field in fields]} for row in rows]
        return {"totalRows": str(len(rows)), "rows": shown}

    def _job(self, body: Resource, does: Callable[[], list[Resource]]) -> Resource:
        job = {**body, "status": {"state": "DONE"}, "statistics": {}, "id": body["jobReference"]["jobId"]}
        try:
            self._rows[job["id"]] = does()
        except Refused as error:
            job["status"]["errorResult"] = {"reason": error.reason, "message": str(error)}
            job["status"]["errors"] = [job["status"]["errorResult"]]
        self._jobs[job["id"]] = job
        return job

    def _results(self, name: str) -> Resource:
        job, rows = self._jobs[name], self._rows.get(name, [])
        if wrong := job["status"].get("errorResult"):
            raise Refused(404 if wrong["reason"] == "notFound" else 400, wrong["reason"], wrong["message"])
        fields = [{"name": each, "type": "STRING" if each == "id" else "INTEGER"} for each in (rows or [{}])[0]]
        shown = [{"f": [{"v": None if value is None else str(value)} for value in row.values()]} for row in rows]
        reference = {"jobReference": job["jobReference"], "jobComplete": True, "totalRows": str(len(rows))}
        return {**reference, "schema": {"fields": fields}, "rows": shown}

    def _query(self, query: Resource) -> list[Resource]:
        values = {each["name"]: each["parameterValue"]["value"] for each in query.get("queryParameters", [])}
        connection = self._database.cursor()
        try:
            for statement in filter(None, query["query"].split(";\n")):
                sql = statement.replace("`", '"').replace("@", "$")
                rows = connection.execute(sql, values).to_arrow_table().to_pylist()
        except duckdb.CatalogException as error:
            raise Refused(404, "notFound", f"Not found: {str(error).splitlines()[0]}") from None
        except duckdb.TransactionException as error:
            line = f"Transaction is aborted due to concurrent update against table {str(error).splitlines()[0]}"
            raise Refused(400, "invalidQuery", line) from None
        except duckdb.Error as error:
            raise Refused(400, "invalidQuery", str(error).splitlines()[0]) from None
        finally:
            connection.close()  # which rolls back
        return rows

    def begin_upload(self, body: Resource) -> int:
        """The number of an upload that is done in parts."""
        self._uploads.append(body)
        return len(self._uploads) - 1

    def uploaded(self, number: int, content: bytes) -> Resource:
        """The job of an upload that is complete."""
        return self.load(self._uploads[number], content)

    def load(self, body: Resource, content: bytes) -> Resource:
        """The job that loads a file of Parquet."""
        self.before("LOAD", "", body)
        config = body["configuration"]["load"]
        assert config["sourceFormat"] == "PARQUET"
        assert (config["createDisposition"], config["writeDisposition"]) == ("CREATE_NEVER", "WRITE_EMPTY")
        assert config["parquetOptions"] == {"enableListInference": True}
        to = config["destinationTable"]
        return self._job(body, lambda: self._load((to["projectId"], to["datasetId"], to["tableId"]), content))

    def _load(self, key: tuple[str, ...], content: bytes) -> list[Resource]:
        table = self._table("GET", key, None)
        if table["numRows"] != "0":
            raise Refused(409, "duplicate", f"Already Exists: Table {_name(key)}")
        rows = pq.read_table(BytesIO(content))
        fields = table["schema"]["fields"]
        assert rows.schema.names == [field["name"] for field in fields]
        columns = [f'COALESCE("{field["name"]}", [])' if field.get("mode") == "REPEATED" else f'"{field["name"]}"' for field in fields]
        with self._database.cursor() as connection:
            connection.register("rows", rows)
            connection.execute(f"INSERT INTO {_quoted(key)} SELECT {', '.join(columns)} FROM rows")
        return []


def _duckdb_type(field: Mapping[str, Any]) -> str:
    kind = _TYPES.get(field["type"], "")
    if field["type"] == "RECORD":
        inner = [f'"{each["name"]}" {_duckdb_type(each)}' for each in field["fields"]]
        kind = f"STRUCT({', '.join(inner)})"
    return f"{kind}[]" if field.get("mode") == "REPEATED" else kind


def _shown(field: Mapping[str, Any], value: Any) -> Any:
    """A value in JSON as BigQuery has it."""
    if field.get("mode") == "REPEATED":
        return [{"v": _shown({**field, "mode": "NULLABLE"}, each)} for each in value or ()]
    if value is None:
        return None
    if field["type"] == "RECORD":
        return {"f": [{"v": _shown(each, value[each["name"]])} for each in field["fields"]]}
    if isinstance(value, bytes):
        return base64.b64encode(value).decode()
    if field["type"] == "TIMESTAMP":
        return str((value - dt.datetime.fromtimestamp(0, dt.UTC)) // dt.timedelta(microseconds=1))
    if isinstance(value, bool):
        return json.dumps(value)
    return value.isoformat() if isinstance(value, dt.date | dt.time) else str(value)


def _name(key: tuple[str, ...]) -> str:
    return f"{key[0]}:{'.'.join(key[1:])}"


def _quoted(key: tuple[str, ...]) -> str:
    return ".".join(f'"{part}"' for part in key)


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    disable_nagle_algorithm = True

    def do_any(self) -> None:
        of: BigQuery = self.server.of  # type: ignore[attr-defined]
        address, content = urlsplit(self.path), self.rfile.read(int(self.headers.get("content-length", 0)))
        path = re.sub(r"^(/resumable)?(/upload)?/bigquery/v2", "", address.path)
        headers = {}
        try:
            if address.query.startswith("upload_id="):
                answer = of.uploaded(int(address.query.removeprefix("upload_id=")), content)
            elif "uploadType=resumable" in address.query:
                headers["location"] = f"http://{self.headers['host']}{address.path}?upload_id={of.begin_upload(json.loads(content))}"
                answer = {}
            else:
                answer = of.answer(self.command, path, json.loads(content) if content else None)
            status = 200
        except Refused as error:
            errors = [{"reason": error.reason, "message": str(error)}]
            status, answer = error.status, {"error": {"code": error.status, "message": str(error), "errors": errors}}
        shown = json.dumps(answer).encode()
        self.send_response(status)
        for name, value in {**headers, "content-type": "application/json", "content-length": str(len(shown))}.items():
            self.send_header(name, value)
        self.end_headers()
        self.wfile.write(shown)

    do_GET = do_POST = do_PUT = do_PATCH = do_DELETE = do_any

    def log_message(self, format: str, *args: Any) -> None:
        pass


@contextmanager
def served() -> Iterator[tuple[BigQuery, str]]:
    """A BigQuery without tables, and the address where it is served."""
    server = ThreadingHTTPServer(("127.0.0.1", 0), _Handler)
    server.of = BigQuery()  # type: ignore[attr-defined]
    thread = threading.Thread(target=server.serve_forever, args=(0.05,), daemon=True)
    thread.start()
    try:
        yield server.of, f"http://127.0.0.1:{server.server_port}"  # type: ignore[attr-defined]
    finally:
        server.shutdown()
        thread.join()
        server.server_close()
