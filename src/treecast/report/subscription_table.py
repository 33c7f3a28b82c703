"""The subscriptions of a run as a table of HTML: what matched most, with its query, and what never did."""

from __future__ import annotations

import html

from treecast.names import text_of
from treecast.report.figures import Figures
from treecast.report.markup import MORE, controls, link, section, soft, sorter, text

SHOWN_MAX = 500
"""Of the subscriptions that matched, and of those that did not. A file beside the page has all of them."""
ID_CHARS_MAX, QUERY_CHARS_MAX = 120, 240


def subscription_table(figures: Figures) -> str:
    """The part of the page about subscriptions; nothing where there are none."""
    top, unmatched = figures.top[:SHOWN_MAX], figures.unmatched[:SHOWN_MAX]
    if not top and not unmatched:
        return ""
    details = {match.subscription for document in figures.details for match in document.shown}
    most = max((count for _, count in top), default=0) or 1
    rows = [_row(figures, id, count, most, id in details) for id, count in top]
    rows += [_row(figures, id, 0, most, False) for id in unmatched]
    kinds = [("", "all")]
    kinds += [("matched", "matched")] if top else []
    kinds += [("unmatched", "never matched")] if unmatched else []
    heads = (("subscription", "id", False), ("query", "query", False), ("matches", "matches", True))
    head = "".join(
        f"<th data-head{' class=number' if number else ''}>{sorter(name, key, number=number)}</th>"
        for name, key, number in heads
    )
    table = (
        f'<table class="rows stack"><thead><tr>{head}</tr></thead>\n<tbody data-rows>\n{"".join(rows)}</tbody></table>'
    )
    body = soft(_sentence(figures)) + controls("subscriptions", kinds if len(kinds) > 2 else ()) + table + MORE
    return section("Subscriptions", body + _rest(figures, len(top), len(unmatched)), ' id="subscriptions" data-list')


def _sentence(figures: Figures) -> str:
    matched_count, unmatched_count = figures.subscriptions_matched, figures.unmatched_count
    if not matched_count:
        return f"No document matched any of {figures.subscriptions:,} subscriptions."
    if not unmatched_count:
        return f"All {figures.subscriptions:,} matched at least one document."
    return f"{matched_count:,} matched at least one document, {unmatched_count:,} matched none."


def _rest(figures: Figures, top: int, unmatched: int) -> str:
    hidden_counts = figures.subscriptions_matched - top, figures.unmatched_count - unmatched
    parts = [
        f"{count:,} that {what}" for count, what in zip(hidden_counts, ("matched", "did not"), strict=True) if count > 0
    ]
    if not parts:
        return ""
    place = dict(figures.places).get("matches of each subscription")
    where = f"; all of them are in {link(place, figures.directory)}" if place else ""
    return soft(f"Not on this page: {' and '.join(parts)}{where}.")


def _row(figures: Figures, id: str, count: int, most: int, is_found: bool) -> str:
    query = figures.queries.get(id, "")
    name = text(id, ID_CHARS_MAX)
    if is_found:
        target = html.escape(text_of(id)[:ID_CHARS_MAX])
        name = f'<button data-find="{target}" title="Documents that it matched" disabled>{name}</button>'
    kind = "matched" if count else "unmatched"
    key, query_text = text(id, 40), text(query, QUERY_CHARS_MAX)
    bar = f'<span class="bar thin" style="width:{100 * count / most:.2f}%"></span>' if count else ""
    return (
        f'<tr data-kind="{kind}" data-id="{key}" data-query="{text(query, 40)}" data-matches="{count}">'
        f"<td>{name}</td><td><code>{query_text}</code></td>"
        f'<td class="number" data-label="matches">{count:,}{bar}</td></tr>\n'
    )
