"""The pipelines of the documentation run on one engine, and forget the coders that a page registers."""

from collections.abc import Iterator

import pytest
from apache_beam.coders import registry
from apache_beam.options.pipeline_options import StandardOptions

from beam_joins.coders import own_types


@pytest.fixture
def one_engine(monkeypatch):
    """The examples leave the runner to Beam, whose default one switches between engines: here it is one of
    them.
    """
    monkeypatch.setattr(StandardOptions, "DEFAULT_RUNNER", "FnApiRunner")


@pytest.fixture
def own_coders(monkeypatch) -> Iterator[None]:
    """The coders that a page registers are forgotten behind it: its classes are not found by other tests."""
    monkeypatch.setattr(registry, "_coders", registry._coders.copy())
    monkeypatch.setattr(registry, "custom_types", registry.custom_types.copy())
    yield
    own_types._coder_of.clear()
