"""The queries of Nexmark that are views: answers that are right for all events so far. Times are milliseconds.

q5 has windows of 10 s, a new one each 2 s; q7 and q8 windows of 10 s. q9 gives the winning bid of each auction, the first of several
of the highest price.
"""

from typing import Final

_VALID: Final = """valid AS (
    SELECT a.id, a.item, a.seller, a.category, b.id AS bid, b.bidder, b.price, b.ms
    FROM auction a JOIN bid b ON a.id = b.auction AND b.ms BETWEEN a.ms AND a.expires
)"""
_HOPS: Final = " UNION ALL ".join(f"SELECT auction, (ms / 2000 - {n}) * 2000 AS begins FROM bid" for n in range(5))

QUERIES: Final = {
    "q3": """
SELECT p.name, p.city, p.state, a.id FROM auction a JOIN person p ON a.seller = p.id
WHERE a.category = 10 AND p.state IN ('OR', 'ID', 'CA')""",
    "q4": f"""
WITH {_VALID}, final AS (SELECT id, category, max(price) AS price FROM valid GROUP BY id, category)
SELECT category, avg(CAST(price AS DOUBLE)) AS price FROM final GROUP BY category""",
    "q5": f"""
WITH hops AS ({_HOPS}),
counts AS (SELECT auction, begins, count(*) AS bids FROM hops GROUP BY auction, begins),
most AS (SELECT begins, max(bids) AS bids FROM counts GROUP BY begins)
SELECT c.auction, c.begins, c.bids FROM counts c JOIN most m ON c.begins = m.begins AND c.bids = m.bids""",
    "q7": """
WITH highest AS (SELECT ms / 10000 AS win, max(price) AS price FROM bid GROUP BY ms / 10000)
SELECT b.id, b.auction, b.bidder, b.price, b.ms FROM bid b JOIN highest h ON b.ms / 10000 = h.win AND b.price = h.price""",
    "q8": """
WITH sellers AS (SELECT DISTINCT seller, ms / 10000 AS win FROM auction)
SELECT p.id, p.name, s.win FROM person p JOIN sellers s ON p.id = s.seller AND p.ms / 10000 = s.win""",
    "q9": f"""
WITH {_VALID}, best AS (SELECT id, max(price) AS price FROM valid GROUP BY id),
winning AS (SELECT v.id, min(v.bid) AS bid FROM valid v JOIN best b ON v.id = b.id AND v.price = b.price GROUP BY v.id)
SELECT v.id, v.item, v.seller, v.bid, v.bidder, v.price, v.ms FROM valid v JOIN winning w ON v.bid = w.bid""",
    "q13": """
SELECT b.id, b.auction, b.bidder, b.price, s.label FROM bid b JOIN side s ON b.auction % 10000 = s.id""",
    "q20": """
SELECT b.id, b.auction, b.bidder, b.price, a.item, a.seller FROM bid b JOIN auction a ON b.auction = a.id WHERE a.category = 10""",
}
