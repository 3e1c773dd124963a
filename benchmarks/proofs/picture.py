"""The picture of the bank: the totals that Flink SQL emits, one after the other, and those of this project."""

from collections.abc import Sequence
from pathlib import Path
from typing import Final

import numpy as np

_WIDTH, _HEIGHT, _LEFT, _TOP, _BOTTOM = 524, 210, 84, 54, 190  # left of the axis are labels such as -2,000,586
_COLUMNS: Final = 200
_STYLE: Final = """\
.page { fill: #ffffff } .text { fill: #1f2a3d } .place { fill: #5b6678 } .line { stroke: #c3ccd9 }
.sql { fill: #b8560a } .totals { stroke: #b8560a; fill: #b8560a } .ours { fill: #2f7d30 } .zero { stroke: #2f7d30 }
@media (prefers-color-scheme: dark) {
.page { fill: #1e2129 } .text { fill: #e3e7ee } .place { fill: #9aa4b5 } .line { stroke: #4a5160 }
.sql { fill: #f5a65b } .totals { stroke: #f5a65b; fill: #f5a65b } .ours { fill: #86cf87 } .zero { stroke: #86cf87 }
}"""


def draw(totals: Sequence[int], transactions: int, path: Path) -> None:
    """Write an SVG of Flink SQL's totals in the order in which they came; each column shows the smallest and
    the largest of a stretch. This project's totals, one for each transaction, are the line at 0.
    """
    values = np.asarray(totals, np.int64)
    stretches = np.array_split(values, min(_COLUMNS, len(values)))
    largest = max(int(np.abs(values).max()), 1)
    middle, scale = (_TOP + _BOTTOM) / 2, (_BOTTOM - _TOP) / 2 / largest
    step = (_WIDTH - _LEFT - 12) / len(stretches)
    across = [_LEFT + step * (number + 0.5) for number in range(len(stretches))]
    upper = [f"{x:.1f},{middle - scale * max(int(each.max()), 0):.1f}" for x, each in zip(across, stretches, strict=True)]
    lower = [f"{x:.1f},{middle - scale * min(int(each.min()), 0):.1f}" for x, each in zip(across, stretches, strict=True)]
    wrong = int(np.count_nonzero(values))
    marks = "".join(
        f'<text class="place" x="{_LEFT - 8}" y="{middle - scale * value + 4:.0f}" text-anchor="end" font-size="11">{value:,}</text>'
        for value in (largest, 0, -largest)
    )
    path.write_text(
        f"""<svg xmlns="http://www.w3.org/2000/svg" width="{_WIDTH}" height="{_HEIGHT}" viewBox="0 0 {_WIDTH} {_HEIGHT}" \
font-family="system-ui, 'DejaVu Sans', sans-serif" font-size="13" role="img">
<title>Totals of all balances: those of Flink SQL in the order in which they are emitted, and those of beam_joins, all 0</title>
<style>
{_STYLE}
</style>
<rect class="page" width="{_WIDTH}" height="{_HEIGHT}" rx="8"/>
<text class="sql" x="14" y="22">Flink SQL, streaming: {wrong:,} of {len(values):,} totals are not 0</text>
<text class="ours" x="14" y="42">beam_joins: 0 of {transactions:,} totals are not 0</text>
<path class="line" d="M{_LEFT} {_TOP}V{_BOTTOM}"/>{marks}
<polygon class="totals" points="{" ".join([*upper, *reversed(lower)])}"/>
<path class="zero" stroke-width="2.5" d="M{_LEFT} {middle:.0f}H{_WIDTH - 12}"/>
<text class="place" x="{_WIDTH - 12}" y="{_BOTTOM + 14}" text-anchor="end" font-size="11">totals in the order of output →</text>
</svg>
""",
        encoding="utf-8",
    )
