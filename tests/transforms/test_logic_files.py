"""Files of sqllogictest as views: what the program counts."""

from tests import logic_tests

FILE = """# a file
statement ok
CREATE TABLE Shops (id INT, City TEXT)

statement ok
INSERT INTO shops VALUES (1, 'Oslo'), (1, 'Oslo'), (2, NULL)

statement ok
CREATE MATERIALIZED VIEW cities AS SELECT city, count(*) AS n FROM shops GROUP BY city

statement ok
CREATE VIEW many AS SELECT n FROM cities WHERE n > 1

statement error
INSERT INTO nowhere VALUES (1)

statement ok
UPDATE shops SET city = 'Rome' WHERE id = 2

statement ok
DELETE FROM shops WHERE id = 1

query I rowsort
SELECT max(id), 'x' FROM shops ORDER BY 1
----
2 x

query I
SELECT id FROM shops ORDER BY id LIMIT 1
----
2

onlyif mysql
query I
SELECT nonsense
"""


def test_views_and_queries_of_a_file_are_kept_over_its_history(tmp_path, capsys):
    (tmp_path / "a.slt").write_text(FILE)
    assert logic_tests.main([str(tmp_path)]) == 0
    out = capsys.readouterr().out.splitlines()
    assert out[0] == f"{tmp_path}/a.slt: {{'right': 3, 'refused': 1}}"
    assert out[1].split() == [
        "1",
        "refused:",
        "query:",
        "LIMIT",
        "is",
        "not",
        "kept:",
        "a",
        "view",
        "is",
        "a",
        "table",
        "without",
        "an",
        "order;",
        "join",
        "the",
        "min",
        "or",
        "max",
        "of",
        "a",
        "group",
    ]


def test_a_view_that_is_not_as_duckdb_has_it_is_wrong(tmp_path, capsys, monkeypatch):
    (tmp_path / "a.slt").write_text(FILE)
    monkeypatch.setattr(logic_tests, "content", lambda changes, position: {})
    assert logic_tests.main([str(tmp_path)]) == 1
    assert "wrong: at " in capsys.readouterr().out
