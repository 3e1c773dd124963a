"""Mistakes in options, each an error of the type checker in the line that has it."""

from beam_joins import FilterTable, ForeignKeyJoin, TableFromChangelog, TableTableJoin, WindowedStreamJoin
from beam_joins.io import ReadChangeEvents, WriteChangelog


def mistakes() -> None:
    TableFromChangelog(key=1)  # wrong: arg-type
    TableFromChangelog(key="id", emit="all")  # wrong: arg-type
    TableFromChangelog("id")  # wrong: call-arg
    FilterTable("amount > 100")  # wrong: arg-type
    FilterTable(print, negated=True)  # wrong: call-arg
    TableTableJoin(print, how="cross")  # wrong: arg-type
    ForeignKeyJoin(print, foreign_key=7)  # wrong: arg-type
    WindowedStreamJoin(print, before="5 minutes", after=60, grace=0)  # wrong: arg-type
    WindowedStreamJoin(print, before=5, after=60)  # wrong: call-arg
    ReadChangeEvents("x.jsonl", format="xml")  # wrong: arg-type
    WriteChangelog("x.jsonl", records="inserts")  # wrong: arg-type
