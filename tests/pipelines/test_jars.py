"""The lock file, the verified cache and the class path, without a network."""

import errno
import hashlib
import os
import subprocess
import threading
import urllib.request
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path

import pytest

from beam_joins.pipelines.runners import jars, spark_server
from beam_joins.pipelines.runners.jars import Jar, is_writable, locked_jars, provide
from beam_joins.pipelines.runners.java import find_java
from beam_joins.pipelines.runners.job_server import argument_file
from beam_joins.pipelines.runners.local_connections import no_proxy_here
from beam_joins.pipelines.runners.setup_error import RunnerSetupError
from beam_joins.pipelines.runners.spark_server import spark_jars

CONTENT = b"the bytes of a jar"


def jar(name: str, content: bytes = CONTENT) -> Jar:
    return Jar("org.example", name, "1.0", hashlib.sha256(content).hexdigest())


class Repository:
    """A fetch function that writes what it has been given, and counts."""

    def __init__(self, content: bytes = CONTENT) -> None:
        self.content = content
        self.urls: list[str] = []

    def __call__(self, url: str, directory: str) -> str:
        self.urls.append(url)
        path = Path(directory) / url.rsplit("/", 1)[1]
        path.write_bytes(self.content)
        return str(path)


def offline(url: str, directory: str) -> str:
    (Path(directory) / (url.rsplit("/", 1)[1] + ".tmp")).write_bytes(b"half")
    raise RuntimeError(f"Unable to fetch remote job server jar at {url}: <urlopen error Name or service not known>. If no")


def test_every_locked_jar_has_coordinates_and_a_sha256():
    jars = locked_jars()
    assert {"beam-runners-spark-3", "beam-runners-java-job-service"} <= {each.artifact for each in jars}
    assert all(len(each.sha256) == 64 and int(each.sha256, 16) for each in jars)
    assert len({each.file_name for each in jars}) == len(jars)


def test_spark_keeps_its_own_logging_api():
    assert not {"slf4j-api", "listenablefuture"} & {each.artifact for each in locked_jars()}


def test_a_line_of_another_shape_is_named():
    with pytest.raises(ValueError, match=r"group:artifact:version sha256.*no colons"):
        Jar.parse("no colons")


def test_a_missing_jar_is_fetched_once_and_then_never_again(tmp_path):
    repository = Repository()
    for _ in range(2):
        assert provide([jar("a")], cache=tmp_path, fetch=repository, progress=None) == [tmp_path / "a-1.0.jar"]
    assert len(repository.urls) == 1
    assert (tmp_path / "a-1.0.jar").read_bytes() == CONTENT


def test_the_command_that_fetches_the_jars_says_where_they_are(tmp_path, monkeypatch, capsys):
    monkeypatch.setattr(jars, "provide", lambda locked, **_: [tmp_path / jar.file_name for jar in locked])
    jars.main()
    assert capsys.readouterr().out == f"{len(locked_jars())} jars of Beam's Spark runner are in {tmp_path}\n"


def test_a_jar_comes_from_the_repository_that_is_named(tmp_path):
    repository = Repository()
    provide([jar("a")], cache=tmp_path, repository="http://mirror.test/maven/", fetch=repository, progress=None)
    assert repository.urls == ["http://mirror.test/maven/org/example/a/1.0/a-1.0.jar"]


def test_a_corrupted_jar_in_the_cache_is_replaced(tmp_path):
    (tmp_path / "a-1.0.jar").write_bytes(b"corrupted")
    provide([jar("a")], cache=tmp_path, fetch=Repository(), progress=None)
    assert (tmp_path / "a-1.0.jar").read_bytes() == CONTENT


def test_a_corrupted_jar_offline_is_one_sentence_that_names_the_file(tmp_path):
    (tmp_path / "a-1.0.jar").write_bytes(b"corrupted")
    with pytest.raises(RunnerSetupError, match=r"a-1\.0\.jar is corrupted and could not be fetched \(Name or service"):
        provide([jar("a")], cache=tmp_path, fetch=offline, progress=None)


def test_a_failure_that_passes_is_tried_again(tmp_path, monkeypatch):
    monkeypatch.setattr(jars, "_PAUSES", (0, 0))
    failures, repository = (
        [f"<urlopen error {reason}>" for reason in ("Temporary failure in name resolution", "timed out")],
        Repository(),
    )

    def unsteady(url: str, directory: str) -> str:
        if failures:
            raise RuntimeError(failures.pop())
        return repository(url, directory)

    assert provide([jar("a")], cache=tmp_path, fetch=unsteady, progress=None) == [tmp_path / "a-1.0.jar"]


def test_a_jar_that_another_process_has_fetched_meanwhile_is_taken(tmp_path):
    def late(url: str, directory: str) -> str:
        (tmp_path / "a-1.0.jar").write_bytes(CONTENT)
        return offline(url, directory)

    assert provide([jar("a")], cache=tmp_path, fetch=late, progress=None) == [tmp_path / "a-1.0.jar"]


def test_a_missing_jar_offline_leaves_nothing_in_the_cache(tmp_path):
    with pytest.raises(RunnerSetupError, match=r"a-1\.0\.jar is not there .* copy the directory"):
        provide([jar("a")], cache=tmp_path, fetch=offline, progress=None)
    assert list(tmp_path.iterdir()) == []


def test_offline_nothing_is_fetched_and_what_is_missing_is_one_sentence(tmp_path):
    (tmp_path / "a-1.0.jar").write_bytes(CONTENT)
    assert provide([jar("a")], cache=tmp_path, fetch=offline, offline=True) == [tmp_path / "a-1.0.jar"]
    repository = Repository()
    with pytest.raises(RunnerSetupError, match=r"^1 jars of Beam's Spark runner are not in "):
        provide([jar("a"), jar("b")], cache=tmp_path, fetch=repository, offline=True)
    assert repository.urls == []


def test_a_repository_that_does_not_answer_is_one_sentence(tmp_path):
    with pytest.raises(RunnerSetupError, match=r"could not be fetched \(.*refused\)"):
        provide([jar("a")], cache=tmp_path, repository="http://127.0.0.1:9", progress=None)


class Proxy(BaseHTTPRequestHandler):
    """Answers for every host there is, as a proxy does."""

    def do_GET(self) -> None:
        self.send_response(200 if self.path.startswith("http://mirror.test/") else 404)
        self.end_headers()
        self.wfile.write(CONTENT)

    def log_message(self, *message: object) -> None:
        """Say nothing."""


def test_jars_are_fetched_through_the_proxy_of_the_network(tmp_path, monkeypatch):
    with HTTPServer(("127.0.0.1", 0), Proxy) as proxy:
        threading.Thread(target=proxy.serve_forever, daemon=True).start()
        monkeypatch.setenv("http_proxy", f"http://127.0.0.1:{proxy.server_port}")
        monkeypatch.setattr(urllib.request, "_opener", None)  # made once, with the proxies of then
        with no_proxy_here():
            provide([jar("a")], cache=tmp_path, repository="http://mirror.test/maven", progress=None)
        proxy.shutdown()
    assert (tmp_path / "a-1.0.jar").read_bytes() == CONTENT


def test_wrong_bytes_from_the_repository_never_reach_the_cache(tmp_path):
    with pytest.raises(RunnerSetupError, match="does not have the SHA-256"):
        provide([jar("a")], cache=tmp_path, fetch=Repository(b"something else"), progress=None)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    ("number", "message"),
    [
        (
            errno.ENOSPC,
            "There is no room for the jars of Beam's Spark runner in {}; free 200 MB there, or name another directory with",
        ),
        (
            errno.EROFS,
            "The jars of Beam's Spark runner cannot be written into {} (Read-only file system); name another directory with",
        ),
        (errno.EACCES, "The jars of Beam's Spark runner cannot be written into {} (Permission denied); name another directory with"),
    ],
)
def test_a_disk_that_takes_no_more_jars_is_one_sentence_that_names_the_option(tmp_path, number, message):
    def full(url: str, directory: str) -> str:
        raise OSError(number, os.strerror(number))

    with pytest.raises(RunnerSetupError) as caught:
        provide([jar("a"), jar("b")], cache=tmp_path, fetch=full, progress=None)
    assert str(caught.value) == f"{message.format(tmp_path)} --jar_cache_dir."
    assert list(tmp_path.iterdir()) == []


def test_a_cache_that_cannot_be_made_is_one_sentence(tmp_path):
    (tmp_path / "file").write_text("")
    with pytest.raises(RunnerSetupError, match=r"cannot be written into .*/file/cache \(Not a directory\); name another"):
        provide([jar("a")], cache=tmp_path / "file" / "cache", fetch=Repository(), progress=None)


def test_a_directory_is_writable_when_a_file_can_be_made_there(tmp_path):
    (tmp_path / "file").write_text("")
    assert is_writable(tmp_path / "new")
    assert not is_writable(tmp_path / "file" / "new")
    assert list((tmp_path / "new").iterdir()) == []


def test_jars_that_arrived_before_a_failure_are_kept(tmp_path):
    good = Repository()

    def fetch(url: str, directory: str) -> str:
        return offline(url, directory) if "bad" in url else good(url, directory)

    with pytest.raises(RunnerSetupError, match="bad-1.0.jar"):
        provide([jar("a"), jar("bad")], cache=tmp_path, fetch=fetch, progress=None)
    assert {path.name for path in tmp_path.iterdir()} <= {"a-1.0.jar"}


@pytest.mark.process
@pytest.mark.gate
def test_the_argument_file_of_java_keeps_spaces_quotes_and_backslashes(tmp_path):
    class_path = f"{tmp_path}/my jars/a.jar:{tmp_path}/b\\c.jar"
    file = tmp_path / "arguments"
    file.write_text(argument_file(["-cp", class_path, "-XshowSettings:properties", '-Dsaid="x y"', "-version"]), "utf-8")
    message = subprocess.run([find_java(), f"@{file}"], capture_output=True, text=True, check=True).stderr
    path = message.split("java.class.path = ")[1].split("java.class.version")[0].split("\n")
    assert [line.strip() for line in path if line.strip()] == class_path.split(":")
    assert 'said = "x y"' in message


def test_sparks_jars_are_those_of_pyspark():
    assert {"spark-core", "spark-launcher"} <= {path.name.split("_2.12-3.5.")[0] for path in spark_jars()}


def test_another_pyspark_than_3_5_is_refused(monkeypatch):
    monkeypatch.setattr(spark_server, "version", lambda name: "4.0.1")
    with pytest.raises(RunnerSetupError, match=r"PySpark 4\.0\.1 is installed but Beam's runner is built for Spark 3\.5"):
        spark_jars()
