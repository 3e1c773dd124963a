"""Names in the tables of the site may break before capitals and behind underscores, so that a table is as wide as a phone."""

import re
from typing import Any

_CELL = re.compile(r"<td[ >].*?</td>", re.DOTALL)
_CODE = re.compile(r"(?<=<code>)[^<]+(?=</code>)")
_BREAK = re.compile(r"(?<=[a-z0-9])(?=[A-Z])|(?<=[_.])(?=\w)")


def on_page_content(html: str, **_: Any) -> str:
    """The content of a page, with places to break in the names of its tables."""
    return _CELL.sub(lambda cell: _CODE.sub(lambda name: _BREAK.sub("<wbr>", name[0]), cell[0]), html)
