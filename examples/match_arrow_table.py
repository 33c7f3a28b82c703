"""Match a column of an Arrow table, and join the matches with the other columns of the table.

    python examples/match_arrow_table.py

`match_many` numbers documents by their row; so a join needs only the row number.
"""

from __future__ import annotations

import pyarrow as pa

import treecast

DOCUMENTS = pa.table(
    {
        "key": ["k1", "k2", "k3", "k4"],
        "document": [
            b"<trade><fx pair='EURNOK'/></trade>",
            b"<trade><swap/></trade>",
            b"<trade><swap></trade>",
            b"<memo/>",
        ],
    }
)
SUBSCRIPTIONS = pa.table({"id": ["all-trades", "fx", "swaps"], "query": ["/trade", "/trade/fx/@pair", "//swap"]})


def main() -> None:
    index = treecast.Index()
    index.add_many(SUBSCRIPTIONS)
    matches, errors = index.match_many(DOCUMENTS["document"], on_error="report")
    keys = DOCUMENTS["key"].take(matches["document"])
    found = sorted(zip(keys.to_pylist(), matches["subscription"].to_pylist(), strict=True))
    for key, subscription in found:
        print(key, subscription)
    for error in errors.to_pylist():
        print(DOCUMENTS["key"][error["document"]], error["code"], "at byte", error["offset"])


if __name__ == "__main__":
    main()
