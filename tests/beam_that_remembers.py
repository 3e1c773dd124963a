"""Beam builds its parser of options, and reads signatures, sources and modules, hundreds of times for a
pipeline; here it does each once.

Nor does it weigh what it caches, pickle arguments of which there are none, compress and unpack again what it
has compressed before, or sample what a bundle is at, for whose sampler to wake the end of each bundle waits.
All that is more than half of the time of a pipeline of a few records, of which the tests run thousands.
"""

import bz2
import copy
import inspect
import logging
import sys
import threading
import weakref
from argparse import Namespace
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from types import CodeType, FunctionType, MethodType, ModuleType, SimpleNamespace
from typing import Any

import pytest
from apache_beam.internal import cloudpickle_pickler
from apache_beam.internal.cloudpickle import cloudpickle
from apache_beam.options.pipeline_options import PipelineOptions
from apache_beam.runners.worker import statecache, statesampler
from apache_beam.transforms import core, userstate
from apache_beam.typehints import decorators
from apache_beam.utils import interactive_utils

_parse, _view_as = PipelineOptions.__init__, PipelineOptions.view_as
_read_specs, _read_arguments, _read_signature = (
    userstate.get_dofn_specs,
    core.get_function_args_defaults,
    decorators.get_signature,
)
_yields_and_returns, _submodules = core._check_fn_use_yield_and_return, cloudpickle._find_imported_submodules
_pickled_and_back = cloudpickle_pickler.roundtrip
_parsed: dict[tuple[Any, ...], Namespace] = {}
_specs: weakref.WeakKeyDictionary[type[core.DoFn], Any] = weakref.WeakKeyDictionary()
_of_functions: dict[Callable[..., Any], weakref.WeakKeyDictionary[FunctionType, Any]] = {}
_of_codes: dict[tuple[CodeType, tuple[str, ...], int], list[str]] = {}
_packed: dict[bytes, bytes] = {}
_of_packed: dict[bytes, bytes] = {}
_MOST_PACKED = 5_000


@contextmanager
def beam_that_remembers() -> Iterator[None]:
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(PipelineOptions, "__init__", _parse_once)
        patched.setattr(PipelineOptions, "view_as", _view_of_what_is_parsed)
        patched.setattr(PipelineOptions, "_visible_option_list", lambda self: sorted(vars(self._visible_options)))
        patched.setattr(userstate, "get_dofn_specs", _read_specs_once)
        patched.setattr(core, "get_function_args_defaults", _read_arguments_once)
        patched.setattr(core, "_check_fn_use_yield_and_return", lambda function: _once(_yields_and_returns, function))
        patched.setattr(decorators, "get_signature", lambda function: _once(_read_signature, function))
        patched.setattr(statecache, "get_deep_size", lambda *cached: len(cached))
        patched.setattr(cloudpickle_pickler, "roundtrip", _pickled_and_back_unless_empty)
        patched.setattr(cloudpickle_pickler, "bz2", SimpleNamespace(compress=_compressed, decompress=_unpacked))
        patched.setattr(cloudpickle, "_find_imported_submodules", _submodules_once)
        patched.setattr(statesampler.StateSampler, "start", _start_without_samples)
        patched.setattr(statesampler.StateSampler, "stop", _stop_without_samples)
        patched.setattr(interactive_utils, "is_in_ipython", lambda: False)
        yield


def _visible(kind: type[PipelineOptions], flags: Sequence[str] | None) -> Namespace:
    """The options of the flags that a kind of options defines, and the lists among them nobody's yet."""
    asked = (kind, *(sys.argv[1:] if flags is None else flags))
    if asked not in _parsed:
        new = object.__new__(kind)
        _parse(new, flags)
        _parsed[asked] = copy.deepcopy(new._visible_options)
    return _parsed[asked]


def _unshared(value: Any) -> Any:
    return copy.copy(value) if isinstance(value, list | dict) else value  # a pipeline may append to a list


def _parse_once(self: PipelineOptions, flags: Sequence[str] | None = None, **options: Any) -> None:
    logging.basicConfig()
    self._flags = flags
    self._visible_options = Namespace(**{name: _unshared(value) for name, value in vars(_visible(type(self), flags)).items()})
    self._all_options = {**vars(self._visible_options), **options}


def _view_of_what_is_parsed(self: PipelineOptions, kind: type[PipelineOptions]) -> PipelineOptions:
    if kind.__init__ is not PipelineOptions.__init__:
        return _view_as(self, kind)
    view = object.__new__(kind)
    view._flags, view._visible_options, view._all_options = self._flags, _visible(kind, self._flags), self._all_options
    for name, value in vars(view._visible_options).items():
        if name not in self._all_options:
            self._all_options[name] = _unshared(value)
    return view


def _compressed(data: bytes, compresslevel: int) -> bytes:
    if (packed := _packed.get(data)) is None:
        packed = bz2.compress(data, compresslevel)
        if len(_packed) >= _MOST_PACKED:
            _packed.clear()
            _of_packed.clear()
        _packed[data], _of_packed[packed] = packed, data
    return packed


def _unpacked(data: bytes) -> bytes:
    return bz2.decompress(data) if (unpacked := _of_packed.get(data)) is None else unpacked


def _pickled_and_back_unless_empty(value: Any) -> Any:
    return copy.copy(value) if isinstance(value, list | dict) and not value else _pickled_and_back(value)


def _start_without_samples(self: statesampler.StateSampler) -> None:
    self.tracked_thread = threading.current_thread()
    statesampler.set_current_tracker(self)
    self.started = True


def _stop_without_samples(self: statesampler.StateSampler) -> None:
    statesampler.set_current_tracker(None)
    self.finished = True


def _read_specs_once(dofn: core.DoFn) -> Any:
    if any(isinstance(value, MethodType | core.DoFn) for value in vars(dofn).values()):
        return _read_specs(dofn)
    if type(dofn) not in _specs:
        _specs[type(dofn)] = _read_specs(dofn)
    return _specs[type(dofn)]


def _read_arguments_once(function: Any) -> tuple[list[str], list[Any]]:
    names, defaults = _once(_read_arguments, function)
    return [*names], [*defaults]


def _once(read: Callable[..., Any], function: Any) -> Any:
    """What Beam reads of a method of an object, which is the same of the next object."""
    if not isinstance(function, MethodType) or not isinstance(function.__func__, FunctionType) or inspect.isclass(function.__self__):
        return read(function)
    answers = _of_functions.setdefault(read, weakref.WeakKeyDictionary())
    if function.__func__ not in answers:
        answers[function.__func__] = read(function)
    return answers[function.__func__]


def _submodules_once(code: CodeType, dependencies: Any) -> list[ModuleType]:
    """The submodules that a function uses: the same while no module is imported."""
    used = list(dependencies)
    names = tuple(each.__name__ for each in used if isinstance(each, ModuleType))
    if (asked := (code, names, len(sys.modules))) not in _of_codes:
        _of_codes[asked] = [module.__name__ for module in _submodules(code, used)]
    return [sys.modules[name] for name in _of_codes[asked]]
