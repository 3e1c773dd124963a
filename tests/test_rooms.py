"""The four rooms keep to themselves."""

import ast
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
ROOMS = ["beam_joins", "coders", "transforms", "pipelines"]
FRONT_DOOR = ROOT / "beam_joins" / "__init__.py"


def imported(path: Path) -> set[str]:
    """What a file imports: the first part of a name, of our own the first two."""
    names = set()
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            names |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and node.level == 0 and node.module:
            names |= {f"{node.module}.{alias.name}" for alias in node.names}
    return {".".join(name.split(".")[: 2 if name.startswith("beam_joins.") else 1]) for name in names}


@pytest.mark.parametrize("room", ROOMS)
def test_no_room_imports_from_above(room):
    above = {name for higher in ROOMS[ROOMS.index(room) + 1 :] for name in (higher, f"beam_joins.{higher}")} | (
        {"apache_beam", "pyspark", "pyarrow", "numpy"} if room == "beam_joins" else {"pyspark"}
    )
    files = [path for path in (ROOT / room).rglob("*.py") if path != FRONT_DOOR]
    assert files
    if room != "pipelines":
        assert {str(path): imported(path) & above for path in files if imported(path) & above} == {}


def test_the_front_door_alone_does_not_load_beam():
    code = "import sys, beam_joins; beam_joins.Change; sys.exit('apache_beam' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], cwd=ROOT, check=False).returncode == 0


def test_every_name_of_the_front_door_is_available():
    import beam_joins

    assert [name for name in beam_joins.__all__ if getattr(beam_joins, name, None) is None] == []
    assert set(beam_joins.__all__) == set(dir(beam_joins))
    with pytest.raises(AttributeError, match="no attribute 'Nonsense'"):
        _ = beam_joins.Nonsense


def test_files_are_small_enough_to_have_one_reason_to_change():
    lengths = {
        str(path.relative_to(ROOT)): len(path.read_text().splitlines()) for room in ROOMS for path in (ROOT / room).rglob("*.py")
    }
    assert {path: lines for path, lines in lengths.items() if lines > 300} == {}
