"""The style sheet of the report: light and dark, from a phone's width on."""

from typing import Final

STYLE: Final = """
:root { --ground: #fff; --ink: #1f2a3d; --soft: #4a5468; --line: #d9e0ea; --box: #eef3fa; --look: #fff4dc; --mark: #b36b00;
  --c0: #3b6ea8; --c1: #c65f00; --c2: #3f8a3e; --c3: #8a94a6 }
@media (prefers-color-scheme: dark) {
  :root { --ground: #14181f; --ink: #e6eaf1; --soft: #a9b3c3; --line: #333c4a; --box: #1e2530; --look: #33290f; --mark: #e5a534;
    --c0: #7fb0e6; --c1: #f0954a; --c2: #74c273; --c3: #76818f }
}
* { box-sizing: border-box }
body { font: 15px/1.5 system-ui, sans-serif; color: var(--ink); background: var(--ground); max-width: 1120px; margin: 0 auto;
  padding: 24px 16px; overflow-wrap: break-word }
h1 { font-size: 26px; line-height: 1.25; margin: 0 } h2 { font-size: 19px; margin: 36px 0 4px }
p { margin: 4px 0 12px; color: var(--soft) } .note { font-size: 13px; margin: 30px 0 0 }
.tiles { display: flex; flex-wrap: wrap; gap: 12px; margin-top: 18px }
.tile { flex: 1 1 128px; border: 1px solid var(--line); border-radius: 10px; padding: 10px 14px }
.tile b { display: block; font-size: 19px; white-space: nowrap }
.tile span { color: var(--soft); font-size: 13px } .tile.look { border-color: var(--mark); background: var(--look) }
.c0 { --color: var(--c0) } .c1 { --color: var(--c1) } .c2 { --color: var(--c2) } .c3 { --color: var(--c3) }
.legend { display: flex; flex-wrap: wrap; gap: 2px 18px; font-size: 13px }
.legend i { display: inline-block; width: 12px; height: 12px; border-radius: 3px; margin-right: 6px; background: var(--color) }
.track { display: block; background: var(--box); border-radius: 3px; overflow: hidden }
.track i { display: block; height: 16px; min-width: 1px; background: var(--c0) }
.whole { display: flex } .whole i { height: 28px; background: var(--color) }
.bars { display: grid; grid-template-columns: auto minmax(40px, 1fr) auto; gap: 4px 12px; align-content: start; font-size: 13px }
.bars p { grid-column: 1 / -1; margin: 12px 0 2px }
.bar { display: grid; grid-template-columns: subgrid; grid-column: 1 / -1; align-items: center }
.bar .label { text-align: right; max-width: 14em; overflow-wrap: anywhere } .bar > :last-child { color: var(--soft) }
.bar.marked .label { font-weight: 600 } .marked .track i { background: var(--mark) }
#busiest .track i { background: var(--c2) } #distribution .track i { background: var(--c1) }
.pair { display: grid; grid-template-columns: repeat(2, minmax(0, 1fr)); gap: 24px }
.plot { position: relative; height: 240px; margin: 6px 26px 0 44px; border-bottom: 1px solid var(--soft); font-size: 12px;
  color: var(--soft); overflow-wrap: normal; white-space: nowrap }
.plot svg { position: absolute; inset: 0; width: 100%; height: 100% }
.plot .y { position: absolute; left: 0; right: 0; border-top: 1px solid var(--line) }
.plot .y b { position: absolute; right: 100%; padding-right: 6px; font-weight: 400; transform: translateY(-50%) }
.plot .x { position: absolute; top: calc(100% + 6px); transform: translateX(-50%) }
.line { fill: none; stroke: var(--color); stroke-width: 1.6; vector-effect: non-scaling-stroke }
.area { fill: var(--color); opacity: .25 }
.plot rect { fill: transparent } .plot rect:hover { fill: var(--ink); opacity: .12 }
/* a shadow at the side where there is more, which the page's colour covers at the end */
.wide { overflow-x: auto; background: linear-gradient(90deg, var(--ground) 40%, transparent) left local,
  linear-gradient(270deg, var(--ground) 40%, transparent) right local, linear-gradient(90deg, var(--c3), transparent) left scroll,
  linear-gradient(270deg, var(--c3), transparent) right scroll; background-size: 40px 100%, 40px 100%, 10px 100%, 10px 100%;
  background-repeat: no-repeat }
.steps { max-width: 100%; height: auto; font-size: 12px }
.steps text { fill: var(--soft); text-anchor: middle } .steps .name { fill: var(--ink); font-size: 14px; font-weight: 600 }
.steps rect { fill: var(--box); stroke: var(--c0) } .steps rect.marked { fill: var(--look); stroke: var(--mark) }
.steps path { fill: var(--c3) } .steps .arrow { fill: none; stroke: var(--c3); stroke-width: 1.5 }
table { border-collapse: collapse; width: 100%; min-width: 560px } th { font-size: 13px; color: var(--soft) }
th, td { text-align: left; padding: 4px 10px 4px 0; border-bottom: 1px solid var(--line); vertical-align: top }
td.n, th.n { text-align: right; font-variant-numeric: tabular-nums }
code { font-size: 12px; display: block; min-width: 220px; overflow-wrap: anywhere }
@media (max-width: 760px) {
  .pair { grid-template-columns: minmax(0, 1fr) } .bars { grid-template-columns: auto minmax(0, 1fr) }
  .bar .label { text-align: left } .bar .track { grid-row: 2; grid-column: 1 / -1 }
}
"""
