"""The wheel, and an environment with it; tests on other versions run when they are asked for, with ``-m
versions``: they take minutes.
"""

from pathlib import Path

import pytest

from tests.packaging.building import built_wheel, checkout, environment


@pytest.fixture(scope="session")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return built_wheel(checkout(tmp_path_factory.mktemp("source")))


@pytest.fixture(scope="session")
def installed(wheel: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The `bin` of an environment with the wheel in it."""
    return environment(tmp_path_factory.mktemp("environment"), "--no-index", wheel)
