"""The version of a function: what changes it, what does not, and in which runs it is the same."""

import importlib
import json
import linecache
import os
import pickle
import subprocess
import sys
import types
from functools import partial
from itertools import count
from operator import attrgetter, itemgetter, methodcaller
from pathlib import Path

import pyarrow as pa
import pytest
from apache_beam.internal import cloudpickle

import beam_joins
from beam_joins import versioned, with_key
from beam_joins.functions import function_versions
from beam_joins.functions.function_versions import function_version
from beam_joins.functions.marked_functions import vectorized
from tests.beam_joins.ways_of_values import IMPORTS as ALL_IMPORTS
from tests.beam_joins.ways_of_values import WAYS
from tests.packaging.building import interpreter

ROOT = Path(beam_joins.__file__).parents[1]
IMPORTS = """
import collections, contextlib, datetime, enum, functools, re
from dataclasses import dataclass
from typing import NamedTuple
import numpy as np, pyarrow as pa
"""
JOINER = "def joiner(left, right):\n    return {'amount': left['amount'] * 2, **right}\n"


def write(folder, files):
    for name, source in files.items():
        path = folder / f"{name}.py"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(source)


@pytest.fixture
def version_of(tmp_path, monkeypatch):
    """The version of ``joiner`` in ``program.py``, written into a folder of its own, beside others, and imported."""
    folders = (tmp_path / str(n) for n in count())
    before, imported = dict(sys.modules), set()

    def forget():
        for module in [each for each in sys.modules if each.partition(".")[0] in imported]:
            del sys.modules[module]

    def version(program, files=None):
        folder = next(folders)
        written = {"program": program, **(files or {})}
        write(folder, written)
        imported.update(name.partition("/")[0] for name in written)
        forget()
        monkeypatch.syspath_prepend(folder)
        return function_version(importlib.import_module("program").joiner)

    yield version
    forget()
    sys.modules.update((name, module) for name, module in before.items() if name.partition(".")[0] in imported)


@pytest.mark.parametrize(
    "again",
    [
        "# a comment\n\n\n" + JOINER,
        "def joiner(\n    left,\n    right,\n):\n    return {\n        'amount': (left['amount'] * 2),  # 2\n        **right\n    }\n",
        JOINER.replace("'amount'", '"amount"'),
        JOINER.replace("):\n", "):\n    '''Joins.'''\n"),
        JOINER.replace("left, right", "left: dict[str, int], right: 'object'").replace("):\n", ") -> dict[str, object]:\n"),
        "def other():\n    return 3\n\n" + JOINER,
        "amount = left = 7\n" + JOINER,
    ],
)
def test_comments_formatting_docstrings_type_hints_and_other_code_do_not_count(version_of, again):
    assert version_of(JOINER) == version_of(again) is not None


@pytest.mark.parametrize(
    "source",
    [
        "def joiner(left): return left * $",
        "joiner = lambda left: left * $",
        "def joiner(left, rate=$): return left * rate",
        "def joiner(left, *, rate=$): return left * rate",
        "RATE = $\ndef joiner(left, rate=RATE): return left * rate",
        "RATE = $\ndef joiner(left): return left * RATE",
        "RATE = $\ndef joiner(left): return [RATE for _ in left]",
        "RATES = {'a': $}\ndef joiner(left): return RATES[left]",
        "RATES = {'a': [1, (2, {$})]}\ndef joiner(left): return RATES[left]",
        "def made(rate):\n    return lambda left: left * rate\njoiner = made($)",
        "def made(of):\n    return lambda left: of(left)\njoiner = made(lambda n: n + $)",
        "joiner = functools.partial(lambda left, rate: left * rate, rate=$)",
        "joiner = {'a': 'left.a', 'b': [(lambda left: left + $,)]}",
        "def inner(n): return n + $\ndef joiner(left): return inner(left)",
        "def inner(n): return n + $\ndef between(n): return inner(n)\ndef joiner(left): return between(left)",
        "def inner(n): return n + $\nHANDLERS = {'a': inner}\ndef joiner(left): return HANDLERS[left](0)",
        "def inner(n): return joiner(n) if n else $\ndef joiner(left): return inner(left)",
        "WORD = re.compile('a', $)\ndef joiner(left): return WORD.match(left)",
        "WORD = re.compile('$')\ndef joiner(left): return WORD.match(left)",
        "DAY = datetime.date(2024, 1, $)\ndef joiner(left): return left > DAY",
        "WORDS = pa.array([$])\ndef joiner(left): return WORDS",
        "WORDS = np.array([$])\ndef joiner(left): return WORDS",
        "AMOUNT = pa.compute.field('amount') * $\ndef joiner(left): return AMOUNT",
        "class Rate:\n    def of(self, n): return n * $\ndef joiner(left): return Rate().of(left)",
        "class Rate:\n    of = $\ndef joiner(left): return left * Rate.of",
        "RATE = $\nclass Rate:\n    def of(self, n): return n * RATE\ndef joiner(left): return Rate().of(left)",
        "class Base:\n    of = $\nclass Rate(Base): pass\ndef joiner(left): return Rate.of",
        "class Rate:\n    def __init__(self, n): self.n = n\n    def __call__(self, left): return left * self.n\njoiner = Rate($)",
        "class Rate:\n    def __call__(self, left): return left * $\njoiner = Rate()",
        "class Rate:\n    __slots__ = ('n',)\n    def of(self, left): return self.n\nrate = Rate()\nrate.n = $\njoiner = rate.of",
        "class Rate:\n    @classmethod\n    def of(cls, left): return left * $\njoiner = Rate.of",
        "class Rate(NamedTuple):\n    n: int\nRATE = Rate($)\ndef joiner(left): return RATE.n",
        "Rate = collections.namedtuple('Rate', 'a b'.replace('a', 'a$'))\ndef joiner(left): return Rate(left, 1)",
        "@dataclass\nclass Rate:\n    n: int\nRATE = Rate($)\ndef joiner(left): return RATE.n",
        "@dataclass\nclass Rate:\n    n: object\njoiner = Rate(lambda left: $)",
        "class Rate(enum.Enum):\n    A2 = 'a'\n    A3 = 'b'\nRATE = Rate.A$\ndef joiner(left): return RATE.value",
        "class Rate(int): pass\nRATE = Rate($)\ndef joiner(left): return RATE",
        "def made(n):\n    class Rate:\n        def __call__(self, left): return n\n    return Rate()\njoiner = made($)",
        "class One:\n    n = $\ndef made(of):\n    class Rate(of): pass\n    return Rate\njoiner = made(One)",
        "@contextlib.contextmanager\ndef inner(): yield $\ndef joiner(left): return inner()",
        "def same(of): return of\n@same\ndef joiner(n: 'A$'): pass",
        "@functools.lru_cache\ndef inner(n): return n + $\ndef joiner(left): return inner(left)",
        "@functools.lru_cache\ndef joiner(left): return left + $",
        "def same(of):\n    @functools.wraps(of)\n    def called(n): return of(n)\n    return called\n@same\ndef joiner(n): return $",
        "def plus(of):\n    @functools.wraps(of)\n    def called(n): return of(n) + $\n    return called\n@plus\ndef joiner(n): pass",
        "@functools.singledispatch\ndef joiner(n): return $",
        "@functools.singledispatch\ndef joiner(n): return 0\n@joiner.register\ndef of_text(n: str): return $",
        "joiner = 'a$'.format",
        "class joiner(NamedTuple):\n    n: int = $",
        "exec('def joiner(left): return left * $')",
        "exec('def joiner(left): return [left * $ for _ in left]')",
        "class joiner: pass\nexec('joiner.__call__ = lambda left: $')\njoiner = joiner.__call__",
    ],
)
def test_what_a_function_does_and_what_it_calls_count(version_of, source):
    two, three, again = (version_of(IMPORTS + source.replace("$", each)) for each in "232")
    assert two == again != three
    assert two is not None


@pytest.mark.parametrize("source", WAYS.values(), ids=WAYS)
def test_a_value_that_a_function_refers_to_counts_in_each_way(version_of, source):
    two, three = (version_of(ALL_IMPORTS + source.replace("$", each)) for each in "23")
    assert None is not two != three


@pytest.mark.process
@pytest.mark.gate
def test_values_have_the_same_version_in_each_process_and_in_each_order_of_imports(tmp_path):
    modules = {f"way_{n}": ALL_IMPORTS + source.replace("$", "2") for n, source in enumerate(WAYS.values())}
    program = """
import importlib, json, sys
from beam_joins.functions.function_versions import function_version
names = sys.argv[1:]
modules = {name: importlib.import_module(name) for name in names}
print(json.dumps({name: function_version(modules[name].joiner) for name in names}))
"""
    for folder in ("here", "there/deep"):
        write(tmp_path / folder, {"job": program, **modules})
    here = printed(sys.executable, "job.py", *modules, folder=tmp_path / "here", PYTHONHASHSEED="1")
    there = printed(sys.executable, "job.py", *reversed(modules), folder=tmp_path / "there" / "deep", PYTHONHASHSEED="2")
    assert [source for name, source in modules.items() if here[name] != there[name]] == []


@pytest.mark.parametrize(
    ("source", "one", "other"),
    [
        ("args = argparse.Namespace(rate=2, path='$')\ndef joiner(left): return left * args.rate", "a.csv", "b.csv"),
        ("args = argparse.Namespace(rate=2, path='$')\njoiner = functools.partial(lambda c, left: c.rate, args)", "a.csv", "b.csv"),
        ("class Rate: n = 2\nRate.calls = $\ndef joiner(left):\n    Rate.calls += 1\n    return Rate.n", "1", "2"),
        ("class Rate: pass\nRate.cache = {$}\ndef joiner(left):\n    return Rate.cache.setdefault(left, left)", "1: 1", ""),
        ("def joiner(left):\n    joiner.calls += 1\njoiner.calls = $", "1", "2"),
        ("def of(n): return n\nof.calls = $\ndef joiner(left):\n    of.calls += 1\n    return of(left)", "1", "2"),
        ("import logging\nlog = logging.getLogger('$')\ndef joiner(left): return log.info(left)", "__main__", "job"),
        ("import random\nrng = random.Random($)\ndef joiner(left): return rng.random()", "1", "2"),
        ("rng = np.random.default_rng($)\ndef joiner(left): return rng.random()", "1", "2"),
        ("import tempfile\nfolder = tempfile.TemporaryDirectory(prefix='$')\ndef joiner(left): return folder.name", "a", "b"),
        ("import sqlite3\nc = sqlite3.connect(':memory:', timeout=$)\ndef joiner(left): return c.execute(left)", "1", "2"),
        (
            "from concurrent.futures import ThreadPoolExecutor as Pool\npool = Pool($)\ndef joiner(left): return pool.submit(left)",
            "1",
            "2",
        ),
        ("import os\nfrom os import environ\nos.environ['N'] = '$'\ndef joiner(left): return environ['HOME']", "1", "2"),
        ("C = decimal.Context(prec=9)\nC.divide(1, $)\ndef joiner(left): return C.divide(1, left)", "2", "3"),
    ],
)
def test_what_functions_do_not_name_what_they_change_and_what_is_no_value_does_not_count(version_of, source, one, other):
    assert version_of(ALL_IMPORTS + source.replace("$", one)) == version_of(ALL_IMPORTS + source.replace("$", other)) is not None


@pytest.mark.parametrize("path", ["pathlib.Path(__file__).parent / 'rates.csv'", "pathlib.Path(__file__).parent.parent"])
def test_a_path_counts_from_the_folder_of_the_program(version_of, path):
    source = f"{ALL_IMPORTS}PATH = {path}\ndef joiner(left): return PATH"
    assert version_of(source) == version_of(source) != version_of(source.replace("PATH =", "PATH = pathlib.Path('other') or"))


@pytest.mark.parametrize(
    "program",
    [
        "from shop.rates import inner\ndef joiner(left): return inner(left)",
        "from shop import rates\ndef joiner(left): return rates.inner(left)",
        "import shop.rates\ndef joiner(left): return shop.rates.inner(left)",
        "import shop\nimport shop.rates\ndef joiner(left): return shop.RATES",
        "from shop.rates import Rate\njoiner = Rate().of",
        "from shop.rates import Rate\nclass Mine(Rate): pass\njoiner = Mine().of",
        "from shop import rates\njoiner = rates.inner",
        "def joiner(left):\n    from shop.rates import inner\n    return inner(left)",
        "def joiner(left):\n    from shop import rates\n    return rates.inner(left)",
        "def joiner(left):\n    import shop.rates as r\n    return r.inner(left)",
    ],
)
def test_modules_of_another_folder_of_the_program_count(version_of, tmp_path, monkeypatch, program):
    def version(n):
        folder = tmp_path / f"shop {n}"
        source = f"def inner(left): return left * {n}\nclass Rate:\n    def of(self, left): return left * {n}\n"
        write(folder, {"shop/__init__": f"RATES = [{n}]", "shop/rates": source})
        for name in [each for each in sys.modules if each.partition(".")[0] == "shop"]:
            monkeypatch.delitem(sys.modules, name)
        with monkeypatch.context() as patch:
            patch.syspath_prepend(folder)
            return version_of(program)

    assert version(2) == version(2) != version(3)


@pytest.mark.parametrize(
    ("source", "one", "other"),
    [
        ("calls = $\ndef joiner(left): calls.append(left)", "[]", "[1]"),
        ("cache = $\ndef joiner(left):\n    if left not in cache: cache[left] = left\n    return cache[left]", "{}", "{1: 1}"),
        ("calls = $\ndef joiner(left):\n    global calls\n    calls += 1", "1", "2"),
        (
            "def made():\n    n = $\n    def of():\n        nonlocal n\n        n += 1\n    return of\njoiner = made()",
            "1",
            "2",
        ),
        ("CACHE = $\ndef joiner(left, cache=CACHE):\n    cache[left] = 1", "{}", "{1: 1}"),
        ("CACHE = $\ndef joiner(left, *, cache=CACHE):\n    cache.update(left)", "{}", "{1: 1}"),
        ("class Rate:\n    n = 0\nrate = Rate()\nrate.n = $\ndef joiner(left): rate.n = left", "1", "2"),
        ("rate = $\ndef joiner(left):\n    rate = left\n    return rate", "1", "2"),
        ("rate = $\ndef joiner(left): return left.rate", "1", "2"),
        ("def inner(n): return $\nclass Rate:\n    def of(self, inner): return inner\njoiner = Rate().of", "1", "2"),
        ("connection = open(__file__, buffering=$)\ndef joiner(left): return connection.name", "100", "200"),
        ("words = {*$}\ndef joiner(left): return left in words", "'abcdefgh'", "'hgfedcba'"),
    ],
)
def test_what_it_changes_itself_what_it_does_not_name_and_connections_do_not_count(version_of, source, one, other):
    assert version_of(source.replace("$", one)) == version_of(source.replace("$", other)) is not None


@pytest.mark.parametrize("called", ["helpers.inner(left)", "inner(left)", "helpers.deep.inner(left)"])
@pytest.mark.parametrize("package", ["", "package."])
def test_modules_beside_it_and_packages_there_count(version_of, called, package):
    program = f"import package\n{'from package import helpers' if package else 'import helpers'}\nfrom {package}helpers import inner\n"
    place = package.replace(".", "/")

    def version(n, where):
        inner = {each: f"def inner(n): return n + {n if each == where else 0}\n" for each in ("helpers", "deep")}
        deep = "from package import deep\n" if package else "import deep\n"
        files = {f"{place}helpers": deep + inner["helpers"], f"{place}deep": inner["deep"], "package/__init__": ""}
        return version_of(f"{program}def joiner(left): return {called}", files)

    where = "deep" if "deep" in called else "helpers"
    assert version(2, where) == version(2, where) != version(3, where)


def test_what_a_function_changes_in_a_module_does_not_count_and_the_rest_of_it_does(version_of):
    def version(cache, n):
        helpers = f"cache, total = {cache}, 0\ndef inner(n): return n + {n}\n"
        program = (
            "import helpers\ndef joiner(left):\n    helpers.cache[left] = helpers.total = helpers.inner(left)\n    helpers.update()"
        )
        return version_of(program, {"helpers": helpers})

    assert version({}, 2) == version({1: 1}, 2) != version({}, 3)


def test_functions_and_classes_in_the_cells_of_a_notebook_have_source(monkeypatch):
    def version(constant, comment):
        cell = f"{comment}\nclass Rate:\n    def of(self, left): return left * {constant}\ndef joiner(left): return Rate().of(left)\n"
        name = f"<cell {constant} {comment}>"
        monkeypatch.setitem(linecache.cache, name, (len(cell), None, cell.splitlines(keepends=True), name))
        notebook = types.ModuleType("notebook")
        monkeypatch.setitem(sys.modules, "notebook", notebook)
        exec(compile(cell, name, "exec"), vars(notebook))
        return function_version(notebook.joiner)

    assert version(2, "") == version(2, "# a comment") != version(3, "")


def test_functions_that_pip_installed_count_by_name_unless_they_are_the_value_itself(version_of, tmp_path, monkeypatch):
    def versions(source):
        folder = tmp_path / str(source) / "site-packages"
        write(folder, {"library/__init__": f"N = {source}\ndef inner(n): return n + {source}\ndef outer(n): return inner(n)\n"})
        monkeypatch.delitem(sys.modules, "library", raising=False)
        monkeypatch.syspath_prepend(folder)
        named = version_of("import library\nfrom library import outer\ndef joiner(left): return outer(left), library.inner(library.N)")
        passed = version_of("from library import outer\ndef made(of):\n    return lambda left: of(left)\njoiner = made(outer)")
        return named, passed, function_version(importlib.import_module("library").outer)

    (named, passed, itself), (again, passed_again, changed) = versions(2), versions(3)
    assert (named, passed) == (again, passed_again)
    assert itself != changed


@pytest.mark.parametrize("wraps", ["functools.wraps(of)", "(lambda called: called)"])
@pytest.mark.parametrize("joiner", ["def joiner(left): return inner(left)", "joiner = inner"])
def test_a_function_in_a_decorator_that_pip_installed_counts(version_of, tmp_path, monkeypatch, wraps, joiner):
    def version(argument, body, library):
        folder = tmp_path / f"{argument} {body} {library}" / "site-packages"
        called = f"        @{wraps}\n        def called(left): return of(left) + n + {library}\n        return called\n"
        write(folder, {"library": f"import functools\ndef plus(n):\n    def of_n(of):\n{called}    return of_n\n"})
        monkeypatch.delitem(sys.modules, "library", raising=False)
        monkeypatch.syspath_prepend(folder)
        return version_of(f"from library import plus\n@plus({argument})\ndef inner(left): return left + {body}\n{joiner}")

    assert len({version(1, 1, 1), version(2, 1, 1), version(1, 2, 1)}) == 3
    is_of_the_library = joiner == "joiner = inner" and "wraps" not in wraps  # nothing tells whose function it is
    assert (version(1, 1, 1) != version(1, 1, 2)) == is_of_the_library


def test_lambdas_of_one_line_are_told_apart():
    one, two, again = (lambda left: left["a"]), (lambda left: left["b"]), (lambda left: left["a"])  # fmt: skip
    assert function_version(one) == function_version(again) != function_version(two)
    outer = lambda left: lambda: lambda: left  # noqa: E731
    assert len({function_version(each) for each in (outer, outer(1), outer(1)())}) == 3


def test_lambdas_of_one_line_count_together_where_their_code_has_no_places(version_of):
    def version(source):
        version_of(source)
        function = sys.modules["program"].joiner[0]
        table = b"".join(bytes([0b1_1101_000 | n, 0]) for n in [7] * 99)  # a line, no columns
        return function_version(types.FunctionType(function.__code__.replace(co_linetable=table), {}))

    one, changed, other = (f"joiner = [lambda n: n * {a}, lambda n: n + {b}]" for a, b in ((2, 2), (3, 2), (2, 3)))
    assert len({version(each) for each in (one, changed, other, f"# a comment\n{one}")}) == 3


def test_lambdas_in_the_middle_of_an_expression_have_source():
    nested = {
        "a": [lambda left: left["a"]],
        "b": (
            lambda left:
            # a comment
            left["a"]
        ),
    }  # fmt: skip
    assert function_version(nested["a"][0]) == function_version(nested["b"]) == function_version(lambda left: left["a"])


PROGRAM = """
import re, sys, json, enum, collections, functools
from dataclasses import dataclass, field
from typing import NamedTuple
from helpers import inner
RATES, WORDS = {"a": 1.5, "b": {"x", "y", "z", ("p", 1)}}, frozenset("abcdefghij")
Pair = collections.namedtuple("Pair", ["left", "right"], defaults=[2])
class Kind(enum.Enum):
    A = 1
    B = "b"
class Row(NamedTuple):
    id: int
    name: str = "x"
@dataclass(frozen=True, slots=True)
class Rate:
    n: int = 2
    of: dict = field(default_factory=dict)
    def __call__(self, left):
        "Gives the rate."
        return left * self.n + len(WORDS)
class Counted:
    seen = set()
    def count(self, left):
        self.seen.add(left)
        return super().__hash__()
def made(words):
    def joiner(left: "Row", right, *, kind=Kind.A):
        match left:
            case {"id": int(n)} if n > 3: return f"{n!r:>{len(words)}}{'a' 'b'} {left['id'] if n else n}".strip()
            case [Row(), *_]: return -1
        return [word for word in words if word in WORDS] or RATES
    return joiner
@functools.lru_cache(maxsize=None)
def cached(left): return inner(left)
def plus(of):
    @functools.wraps(of)
    def called(*arguments, **options): return of(*arguments, **options) + 1
    return called
@plus
def decorated(left: int) -> int:
    async def later(): return await left
    try: return (yield left)
    except* (ValueError, TypeError): pass
@functools.singledispatch
def dispatched(left): return 1
@dispatched.register
def _(left: str): return 2
import helpers
import pyarrow.compute as pc
functions = {
    "named": inner, "of a module": lambda left: helpers.inner(left), "sets": made({"u", "v", "w", ("x", 2)}), "cached": cached,
    "rate": Rate, "decorated": decorated, "dispatched": dispatched, "object": Rate(3),
    "bound": Counted().count, "expression": pc.field("a").isin([*range(99)]), "row": Row, "pair": Pair, "kind": Kind,
    "partial": functools.partial(made(frozenset({"k", "l", (1, 2)})), right={1, 2, "a", Kind.A, inner, len, Rate}),
    "of the library": json.dumps, "pattern": lambda left: re.match("a", left), "text": "left.amount", "builtin": "a{}".format,
}
from beam_joins.functions.function_versions import function_version
if __name__ == "__main__": print(json.dumps({name: function_version(each) for name, each in functions.items()}))
"""
HELPERS = {
    "helpers": "WORDS = {'a', 'b', 'c'}\ndef inner(left):\n    return WORDS, [outer(n) for n in left]\nouter = lambda n: n + 1\n"
}


def printed(*arguments, folder=None, **environment):
    environment = {**os.environ, "PYTHONPATH": str(ROOT), **environment}
    ran = subprocess.run([*map(str, arguments)], capture_output=True, text=True, check=True, cwd=folder, env=environment)
    return json.loads(ran.stdout)


@pytest.mark.process
@pytest.mark.gate
def test_each_process_and_each_place_of_the_program_have_the_same_versions(tmp_path):
    for folder in ("here", "there/deep"):
        write(tmp_path / folder, {"job": PROGRAM, "jobs/job": PROGRAM, "jobs/__init__": "", **HELPERS})
    here, there = tmp_path / "here", tmp_path / "there" / "deep"
    first = printed(sys.executable, "job.py", folder=here, PYTHONHASHSEED="1")
    assert [name for name, version in first.items() if version is None] == ["text"]
    assert len(set(first.values())) == len(first)
    assert first == printed(sys.executable, there / "job.py", folder=here, PYTHONHASHSEED="2")
    assert first == printed(sys.executable, "-m", "job", folder=there, PYTHONHASHSEED="3")
    assert first == printed(sys.executable, "-m", "jobs.job", folder=there, PYTHONHASHSEED="4")
    imported = "import json, job\nprint(json.dumps({name: job.function_version(each) for name, each in job.functions.items()}))"
    assert first == printed(sys.executable, "-c", imported, folder=there, PYTHONHASHSEED="5")


def test_what_has_source_does_not_count_by_bytecode(version_of, monkeypatch):
    version = version_of(f"{PROGRAM}joiner = functions\n", HELPERS)
    with monkeypatch.context() as patch:
        patch.setattr(sys, "version_info", (3, 99))
        assert function_version(sys.modules["program"].joiner) == version


@pytest.mark.process
@pytest.mark.gate
def test_each_version_of_python_gives_source_the_same_text(tmp_path):
    write(tmp_path, {"program": PROGRAM})
    files = [
        tmp_path / "program.py",
        *sorted((ROOT / "beam_joins").rglob("*.py")),
        *sorted((ROOT / "tests" / "beam_joins").glob("*.py")),
    ]
    text = """
import ast, hashlib, json, runpy, sys
Syntax = runpy.run_path(sys.argv[1])["Syntax"]
parsed = [Syntax([ast.parse(open(file, encoding="utf-8").read())]) for file in sys.argv[2:]]
print(json.dumps([[hashlib.sha256(each.text.encode()).hexdigest(), sorted(each.names), sorted(each.modified)] for each in parsed]))
"""
    pythons = {sys.executable, *filter(None, map(interpreter, ("3.11", "3.12", "3.13", "3.14")))}
    texts = [printed(python, "-c", text, ROOT / "beam_joins" / "functions" / "source_syntax.py", *files) for python in sorted(pythons)]
    assert len(files) > 50
    assert all(each == texts[0] for each in texts)


def test_a_value_that_its_text_shows_has_no_version():
    schema = pa.schema([("n", pa.int64())])
    for value in (None, 7, "left.amount", ["a", "b"], {"a": "left.a"}, ("a",), {"a", "b"}, pa.int64(), schema, list[int], b"a"):
        assert function_version(value) is None


def test_marks_partials_and_getters_count_with_their_arguments():
    def total(left, right):
        return left + right

    values = [
        total,
        vectorized(total),
        with_key(total),
        partial(total, 1),
        partial(total, 2),
        partial(total, right=2),
        {"a": total},
        itemgetter("a"),
        itemgetter("b"),
        attrgetter("a"),
        methodcaller("a", 1),
        methodcaller("a", n=1),
        len,
        max,
        str.upper,
        str,
        {"a": 1}.get,
        {"a": 2}.get,
    ]
    versions = [function_version(each) for each in values]
    assert len({*versions, None}) == len(values) + 1


def test_of_a_function_that_says_its_version_nothing_else_counts(version_of):
    source = "from beam_joins import versioned\nRATE = $\n@versioned('#')\ndef inner(left, n=$): return left * RATE + $\n"
    for joiner in (
        "joiner = inner",
        "def joiner(left): return inner(left)",
        "import functools\njoiner = functools.partial(inner, n=3)",
    ):
        one, rewritten, another = (
            version_of((source + joiner).replace("$", n).replace("#", version)) for n, version in (("2", "a"), ("3", "a"), ("3", "b"))
        )
        assert one == rewritten != another
    three, four = (function_version(partial(versioned("2")(lambda left: left), n)) for n in (3, 4))
    assert three != four


def test_a_class_that_says_its_version_counts_by_that_and_its_objects_by_their_state_too():
    def made(n, version):
        @versioned(version)
        class Rate:
            def __init__(self, rate):
                self.rate = rate

            def __call__(self, left):
                return left * self.rate * n

        return Rate

    assert function_version(made(1, "a")) == function_version(made(2, "a")) != function_version(made(1, "b"))
    versions = [function_version(made(n, version)(rate)) for n, version, rate in ((1, "a", 5), (2, "a", 5), (1, "a", 6), (1, "b", 5))]
    assert versions[0] == versions[1]
    assert len(set(versions)) == 3


def test_versioned_gives_the_function_itself_which_keeps_its_version_when_it_is_pickled():
    def joiner(left):
        return left

    said = function_version(versioned("2")(lambda left: left * 2))
    assert versioned("2")(joiner) is joiner
    assert joiner(5) == 5
    for function in (joiner, versioned("2")(partial(lambda left: left)), versioned("2")(vectorized(lambda left: left))):
        assert function_version(function) == function_version(pickle.loads(cloudpickle.dumps(function))) == said
    for mark in (vectorized, with_key, partial):
        assert function_version(mark(joiner)) == function_version(pickle.loads(cloudpickle.dumps(mark(joiner)))) != said
        assert function_version(mark(joiner)) == function_version(mark(versioned("2")(lambda: 3)))


@pytest.mark.parametrize("version", [2, "", None, lambda left: left])
def test_a_version_that_is_no_text_is_refused(version):
    with pytest.raises(ValueError, match=r"^versioned\(.*\): give a text that is not empty, such as versioned\(\"2\"\)$"):
        versioned(version)


def test_a_version_of_what_is_no_function_or_cannot_carry_it_is_refused():
    with pytest.raises(ValueError, match=r"versioned\('2'\) was given 'amount': give a function"):
        versioned("2")("amount")
    for function in (len, "{}".format, [].append, str):
        with pytest.raises(ValueError, match=r"cannot carry a version: give a functools.partial or a lambda of it"):
            versioned("2")(function)


def test_a_function_without_source_counts_by_its_bytecode():
    def version(source):
        variables = {"__name__": "program"}
        exec(source, variables)
        return function_version(variables["joiner"])

    one, again, other, inner = (
        version(f"def joiner(left):\n    {line}")
        for line in (
            "return left in {'a', 'b'}",
            "return left in {'b', 'a'}  # a comment",
            "return left in {'a', 'c'}",
            "return [left for _ in 'a']",
        )
    )
    assert one == again
    assert len({one, other, inner, None}) == 4
    rates = [version(f"class Rate:\n    def __call__(self, left): return {n}\njoiner = Rate()") for n in (2, 2, 3)]
    assert rates[0] == rates[1] != rates[2]


def test_source_that_has_gone_before_it_was_read_is_told_as_a_change(version_of, tmp_path):
    with_source = version_of(JOINER)
    joiner, file = sys.modules["program"].joiner, Path(sys.modules["program"].__file__)
    file.unlink()
    assert function_version(joiner) == with_source
    moved = types.FunctionType(joiner.__code__.replace(co_filename=str(tmp_path / "gone.py")), vars(sys.modules["program"]))
    assert None is not function_version(moved) != with_source


def test_objects_that_raise_or_refer_to_themselves_do_no_harm(version_of):
    class Odd:
        def __getattr__(self, name):
            raise RuntimeError(name)

        def __reduce_ex__(self, protocol):
            raise RuntimeError

        def __call__(self, left):
            return left

    class Node:
        def __init__(self):
            self.it, self.all = self, [self]

        def __call__(self, left):
            return self.all

    held = {}
    held["self"] = [held]
    for value in (Odd(), Node(), lambda left: held[left], lambda left, odd=Odd(): odd, [Odd]):  # noqa: B008
        assert function_version(value) == function_version(value) is not None
    assert version_of("def made():\n    def joiner(left): return later\n    return joiner\n    later = 1\njoiner = made()") is not None


def test_what_a_function_refers_to_is_followed_to_an_end(monkeypatch):
    class Node:
        def __init__(self, following):
            self.following = following

        def __call__(self, left):
            return left

    def chain(length, end):
        for _ in range(length):
            end = Node(end)
        return function_version(end)

    assert chain(20_000, 1) != chain(20_000, 2)
    monkeypatch.setattr(function_versions, "_MOST", 1_000)
    assert chain(300, 1) != chain(300, 2)
    assert chain(1_100, 1) == chain(1_100, 2)
