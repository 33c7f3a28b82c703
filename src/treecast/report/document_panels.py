"""Documents that can be looked into, as HTML: what matched, where it is marked, and what was delivered."""

from __future__ import annotations

from treecast.report.figures import DocumentDetail, Figures, MatchDetail, Piece, short_size, short_time
from treecast.report.markup import MORE, common_directory, controls, lines, path, section, soft, sorter, text

PANELS_BYTES_MAX = 500_000
"""What all panels together may add to a page; documents after that are left out."""


def document_panels(figures: Figures) -> str:
    """The part of the page about documents; nothing where none can be shown."""
    directory = common_directory(detail.name for detail in figures.details)
    panels: list[str] = []
    bytes_left = PANELS_BYTES_MAX
    for detail in figures.details:
        panel = _panel(detail, directory, is_rendered=figures.payload_bytes is not None)
        bytes_left -= len(panel.encode())
        if bytes_left < 0:
            break
        panels.append(panel)
    if not panels:
        return ""
    heads = (("document", "name", False), ("matches", "matches", True), ("size", "size", True), ("time", "time", True))
    head = "".join(
        f"<span data-head{' class=number' if number else ''}>{sorter(name, key, number=number)}</span>"
        for name, key, number in heads
    )
    body = soft(_sentence(figures, len(panels), directory)) + controls("documents")
    body += f'<div class="cells heads">{head}</div>\n<div data-rows>\n{"".join(panels)}</div>\n{MORE}'
    return section("Documents", body, ' id="documents" data-list')


def _sentence(figures: Figures, count: int, directory: str) -> str:
    which = f"All {figures.documents:,}" if count == figures.documents else f"{count:,} of {figures.documents:,}"
    kinds = "" if count == figures.documents else ": the first ones, and some that stand out"
    where = f" They are in <code>{path(directory)}</code>." if directory else ""
    return f"{which}{kinds}. Open one to see what matched, and where.{where}"


def _panel(detail: DocumentDetail, directory: str, *, is_rendered: bool) -> str:
    name = detail.name.removeprefix(directory)
    time = short_time(detail.nanoseconds) if detail.nanoseconds else ""
    attributes = (
        f'data-name="{text(name, 60)}" data-matches="{detail.matches}" data-size="{detail.size_bytes}" '
        f'data-time="{detail.nanoseconds}"'
    )
    cells = (f"{detail.matches:,}", short_size(detail.size_bytes), time)
    numbers = "".join(f'<span class="number">{cell}</span>' for cell in cells)
    return (
        f'<details {attributes}><summary class="cells"><span>{path(name)}</span>{numbers}</summary>\n'
        f"{_inside(detail, is_rendered=is_rendered)}</details>\n"
    )


def _inside(detail: DocumentDetail, *, is_rendered: bool) -> str:
    if not detail.pieces:
        return soft("It could not be read again for this report: it is very large, refused, or not on this machine.")
    if not detail.shown:
        matches = soft("Nothing matched it.")
    else:
        items = "".join(_match(number, match, is_rendered=is_rendered) for number, match in enumerate(detail.shown))
        hidden_count = detail.matches - len(detail.shown)
        matches = f"<ol>{items}</ol>" + (soft(f"… and {hidden_count:,} more.") if hidden_count > 0 else "")
    marked_text = "".join(map(_piece, detail.pieces))
    return f'<div class="panel"><div>{matches}</div><pre class="text">{marked_text}</pre></div>\n'


def _match(number: int, match: MatchDetail, *, is_rendered: bool) -> str:
    where = f'<span class="soft">{path(match.place, 160)}</span>' if match.place else ""
    return (
        f'<li data-match="{number}"><button disabled>{text(match.subscription, 120)}</button>'
        f"<code>{text(match.query, 240)}</code>{where}{_payload(match, is_rendered=is_rendered)}</li>\n"
    )


def _payload(match: MatchDetail, *, is_rendered: bool) -> str:
    """What the subscriber gets; a run that delivers nothing shows it too where it is known."""
    if match.payload_bytes is None:
        return '<div class="bad">the delivery was refused</div>' if is_rendered else ""
    verb = "delivered" if is_rendered else "to be delivered"
    if match.is_whole:
        return f'<div class="soft">{verb}: the whole document</div>'
    return f'<div class="soft">{verb}, {short_size(match.payload_bytes)}:</div><pre>{lines(match.payload)}</pre>'


def _piece(piece: Piece) -> str:
    if piece.is_gap:
        return '<span class="soft">\n⋮\n</span>'
    if not piece.numbers:
        return lines(piece.text)
    return f'<mark data-m="{" ".join(map(str, piece.numbers))}">{lines(piece.text)}</mark>'
