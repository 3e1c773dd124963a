"""The program of the page "PostgreSQL" runs as it stands there, and the table is then what the page
shows.
"""

import os
import subprocess
import sys
from pathlib import Path

import psycopg
from psycopg.conninfo import conninfo_to_dict

from tests.docs.page import DOCS, ROOT, blocks


def test_the_program_of_the_page_leaves_the_table_that_it_shows_also_when_it_runs_twice(postgres: str, tmp_path: Path) -> None:
    program, query, shown = [block.text for block in blocks(DOCS / "postgresql.md") if block.language in ("py", "sql", "text")]
    (tmp_path / "enriched.py").write_text(program)
    where = conninfo_to_dict(postgres)
    environment = {f"PG{name.upper()}": str(where[name]) for name in ("host", "port", "user")}
    with psycopg.connect(postgres, autocommit=True) as connection:
        connection.execute("CREATE DATABASE shop")
    for _ in range(2):
        subprocess.run(
            [sys.executable, "enriched.py"],
            cwd=tmp_path,
            check=True,
            env={**os.environ, **environment, "PYTHONPATH": str(ROOT)},
        )
    header, line, *rows = [[cell.strip() for cell in row.split("|")] for row in shown.splitlines()]
    assert len(line) == 1
    with psycopg.connect(postgres, dbname="shop") as connection:
        actual = connection.execute(query.encode())
        assert [column.name for column in actual.description or ()] == header
        assert [list(map(str, row)) for row in actual] == rows
        assert connection.execute("SELECT id, position FROM enriched WHERE deleted").fetchall() == [(8, 6)]
