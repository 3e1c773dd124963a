"""The site builds without a warning: each page is in its menu, each link leads somewhere, each name of the
reference exists.
"""

import os
import subprocess
import sys
from pathlib import Path

import pytest

import beam_joins
import beam_joins.outputs
from docs.breaks import on_page_content
from docs.roles import markdown
from tests.docs.page import DOCS, ROOT


@pytest.mark.build
def test_the_site_builds_without_a_warning(tmp_path):
    build = [sys.executable, "-m", "mkdocs", "build", "--strict", "--quiet", "--site-dir", str(tmp_path)]
    done = subprocess.run(build, cwd=ROOT, capture_output=True, text=True, env={**os.environ, "NO_MKDOCS_2_WARNING": "1"}, check=False)
    assert done.returncode == 0, done.stderr
    page = (tmp_path / "reference" / "joins" / "index.html").read_text(encoding="utf-8")
    assert "ForeignKeyJoin" in page
    assert ":class:" not in page


def test_all_public_names_are_in_the_reference():
    pages = "\n".join(path.read_text(encoding="utf-8") for path in Path(DOCS, "reference").glob("*.md"))
    for module in (beam_joins, beam_joins.outputs):
        assert [name for name in module.__all__ if f"::: {module.__name__}.{name}\n" not in pages] == []


def test_examples_of_docstrings_become_blocks_of_code():
    assert markdown("As :func:`~beam_joins.elements.content.content`.\n\n>>> 1 + 1\n2\n\n>>> 3\n3\n\nText") == (
        "As `content`.\n\n```pycon\n>>> 1 + 1\n2\n\n>>> 3\n3\n```\n\nText"
    )


def test_names_in_tables_may_break_before_capitals_and_behind_underscores_and_others_not():
    made = on_page_content("<p><code>ReadChangelog</code></p><td><code>ReadJSONLines</code> A <code>apply_as_deletes</code></td>")
    cell = "<td><code>Read<wbr>JSONLines</code> A <code>apply_<wbr>as_<wbr>deletes</code></td>"
    assert made == f"<p><code>ReadChangelog</code></p>{cell}"
