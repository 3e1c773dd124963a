"""Makes the many small pipelines of the documentation quick to build, and all on one engine."""

from collections.abc import Iterator
from functools import cache

import pytest
from apache_beam.coders import registry
from apache_beam.options.pipeline_options import StandardOptions
from apache_beam.transforms import userstate

from beam_joins.coders import own_types

_specs_once = cache(userstate.get_dofn_specs)


@pytest.fixture(autouse=True)
def specs_are_read_once(monkeypatch):
    """Beam reads the states and timers of each DoFn a dozen times, which takes a third of the time of a pipeline of a few records."""
    monkeypatch.setattr(userstate, "get_dofn_specs", _specs_once)


@pytest.fixture
def one_engine(monkeypatch):
    """The examples leave the runner to Beam, whose default one switches between engines: here it is one of them."""
    monkeypatch.setattr(StandardOptions, "DEFAULT_RUNNER", "FnApiRunner")


@pytest.fixture
def own_coders(monkeypatch) -> Iterator[None]:
    """The coders that a page registers are forgotten behind it: its classes are not found by other tests."""
    monkeypatch.setattr(registry, "_coders", registry._coders.copy())
    monkeypatch.setattr(registry, "custom_types", registry.custom_types.copy())
    yield
    own_types._found.clear()
