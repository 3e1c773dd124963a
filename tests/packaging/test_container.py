"""The image and the manifests beside the package: the steps of the Dockerfile, done in a folder; its program, which starts
workers; manifests as Kubernetes' schemas have them.
"""

import os
import re
import shlex
import shutil
import subprocess
import sys
import sysconfig
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import grpc
import kubernetes_validate
import pytest
import yaml

from tests import programs
from tests.packaging.building import ROOT
from tests.pipelines.spark_cluster import Processes

KUBERNETES = ROOT / "examples/kubernetes"
JOIN = """
import apache_beam as beam
import beam_joins
from apache_beam.options.pipeline_options import PipelineOptions
from beam_joins import LatestTable, TableFromChangelog

environment = ["--environment_type=EXTERNAL", "--environment_config=localhost:50000"]
with beam.Pipeline(options=PipelineOptions(["--runner=PortableRunner", "--job_endpoint=embed", *environment])) as pipeline:
    rows = pipeline | beam.Create([{"id": 1, "lsn": 1, "x": "a"}, {"id": 1, "lsn": 2, "x": "b"}])
    latest = rows | TableFromChangelog(key="id", sequence_by="lsn") | LatestTable()
    latest | beam.Map(lambda row: f"{row[0]} {row[1]['x']} {beam_joins.__file__}") | beam.io.WriteToText("out")
"""
"""The workers say in which environment they are."""


def manifests(name: str) -> list[dict[str, Any]]:
    return list(yaml.safe_load_all((KUBERNETES / name).read_text(encoding="utf-8")))


def test_manifests_are_as_kubernetes_has_them() -> None:
    for name in ("cron_job.yaml", "executors.yaml", "job_server.yaml"):
        for each in manifests(name):
            kubernetes_validate.validate(each, "1.30", strict=True)


def test_manifests_name_the_images_and_ports_of_each_other_and_the_jar_of_the_lock_file() -> None:
    (pod,), (*_, deployment) = manifests("executors.yaml"), manifests("job_server.yaml")
    (server,) = deployment["spec"]["template"]["spec"]["containers"]
    settings = dict(re.findall(r"^--(?:conf=)?([\w.-]+)=(.+)$", "\n".join(server["args"]), re.MULTILINE))
    executor, workers = pod["spec"]["containers"]
    assert settings["spark.kubernetes.executor.podTemplateContainerName"] == executor["name"]
    assert f"--tag {workers['image']}" in (ROOT / "examples/container/Dockerfile").read_text()
    assert f"--tag {server['image']}" in (KUBERNETES / "Dockerfile").read_text()
    assert settings["spark.kubernetes.container.image"] == server["image"]
    (jar,) = (each for each in server["args"] if each.startswith("/opt/beam/"))
    beam = re.findall(r"beam-runners-spark-3:(\S+)", (ROOT / "pipelines/runners/spark.lock").read_text())
    assert [Path(jar).name] == [f"beam-runners-spark-3-{version}.jar" for version in beam]
    page = (ROOT / "docs/on_a_cluster.md").read_text(encoding="utf-8")
    for name in ("serializer", "kryoserializer.buffer.max", "kryo.registrator"):
        assert f"--conf spark.{name}={settings[f'spark.{name}']} " in page


def steps() -> Iterator[tuple[str, str]]:
    """The instructions of the Dockerfile, each with its arguments."""
    text = (ROOT / "examples/container/Dockerfile").read_text(encoding="utf-8").replace("\\\n", " ")
    for line in text.splitlines():
        if line and not line.startswith("#"):
            instruction, _, arguments = line.partition(" ")
            yield instruction, arguments


@pytest.fixture(scope="module")
def image(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder for the root of the image: an environment with this one's packages in the place of Beam's image, and the steps."""
    root = tmp_path_factory.mktemp("image")
    subprocess.run([sys.executable, "-m", "venv", root / "python"], check=True)
    site = next((root / "python").glob("lib/python*/site-packages"))
    (site / "dependencies.pth").write_text(sysconfig.get_path("purelib"))
    for instruction, arguments in steps():
        if instruction == "COPY":
            *sources, target = arguments.split()
            for source in sources:
                copy(ROOT / source, root / target.lstrip("/"), whole=target.endswith("/"))
        elif instruction == "RUN":
            command = arguments.replace("/tmp/beam_joins", str(root / "tmp/beam_joins"))
            done = subprocess.run(
                ["sh", "-ec", command], env=within(root, EXTRAS="[aws,kafka]"), capture_output=True, text=True, check=False, cwd=root
            )
            assert done.returncode == 0, done.stderr
    return root


def copy(source: Path, target: Path, *, whole: bool) -> None:
    """As COPY does: the content of a folder, with links as links; a file into a folder whose name ends so."""
    if source.is_dir():
        shutil.copytree(source, target, symlinks=True, ignore=shutil.ignore_patterns("__pycache__"))
    else:
        target = target / source.name if whole else target
        target.parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(source, target)


def within(root: Path, **more: str) -> dict[str, str]:
    return {**os.environ, "PYTHONPATH": "", "PATH": f"{root / 'python/bin'}{os.pathsep}{os.environ['PATH']}", **more}


@pytest.mark.build
@pytest.mark.timeout(900)
def test_the_steps_of_the_image_install_the_package_with_its_data(image: Path) -> None:
    code = (
        "from beam_joins.pipelines.runners import jars; print(jars.__file__, *(len(jars.locked_jars(name)) for name in jars.RUNNERS))"
    )
    said = subprocess.run(["python", "-c", code], env=within(image), cwd=image, capture_output=True, text=True, check=True)
    place, *counts = said.stdout.split()
    assert Path(place).is_relative_to(image)
    assert all(int(count) > 50 for count in counts)
    assert not (image / "tmp/beam_joins").exists()


@pytest.mark.build
@pytest.mark.timeout(900)
def test_the_program_of_the_image_is_a_pool_whose_workers_run_a_pipeline(image: Path, tmp_path: Path) -> None:
    if os.geteuid() != 0 or shutil.which("unshare") is None:
        pytest.skip("the path of the program is fixed: root makes it in a view of the disk of its own")
    entry = dict(steps())["ENTRYPOINT"]
    (program,) = re.findall(r'"(.+?)"', entry)
    boot = programs.needed("Beam's boot", programs.boot())
    (pod,) = manifests("executors.yaml")
    arguments = pod["spec"]["containers"][1]["args"]
    start = (
        f"mount -t tmpfs none /opt && mkdir -p {Path(program).parent} && cp {boot} {program} && exec {program} {shlex.join(arguments)}"
    )
    # in an image the environment is the system's, and boot makes one for each worker behind it
    environment = within(image, HOME=str(tmp_path), RUN_PYTHON_SDK_IN_DEFAULT_ENVIRONMENT="1")
    with pool(tmp_path, start, environment):
        subprocess.run([sys.executable, "-c", JOIN], env=within(image), cwd=tmp_path, check=True)
    (result,) = tmp_path.glob("out-*")
    one, b, place = result.read_text().split()
    assert (one, b) == ("1", "b")
    assert Path(place).is_relative_to(image), (tmp_path / "pool.log").read_text()


@contextmanager
def pool(directory: Path, command: str, environment: dict[str, str]) -> Iterator[None]:
    with Processes(directory) as processes:
        log = processes.start(
            "pool", "unshare", "--mount", "--pid", "--fork", "--kill-child", "sh", "-ec", command, environment=environment
        )
        with grpc.insecure_channel("localhost:50000") as channel:
            try:
                grpc.channel_ready_future(channel).result(timeout=120)
            except grpc.FutureTimeoutError:
                raise AssertionError(log.read_text()) from None
        yield
