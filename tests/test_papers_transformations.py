"""Every XQuery that the papers print runs as printed, and gives what the paper describes.

They are ONYX's: the profile of section 2.1, the early projection of section 3.2 and Q3 of Figure 5. The scan's quotes
and its `Smsg` are read right; the braces after Q3's `return` are the paper's own.
"""

from __future__ import annotations

import pytest
from generators.transformation_pieces import drawn
from oracles.saxon import canonical, wrapped
from support.rounds_transformations import made_of, saxon

from treecast import Index

STOCKS = """
for $n in  $msg/nitf
where  $n/head/pubdata/ @edition.area = "SF"
and  $n//tobject.subject/@tobject.subject.type = "Stock"
return  <stock_news>
{$n/body/body.head/hedline}
{$n/body/body.content}

</stock_news>
"""
PROJECTION = """
<batched-nitf>

{ for $n in  $msg/batched-nitf/nitf
where $n/head/pubdata/ @edition.area ="SF"
return $n

}
</batched-nitf>
"""
TIDES = """
<nitf>
{ for  $n in  $msg/nitf
where $n/head/pubdata/ @edition.area ="SF"
and  $n//series/ @series.name ="Tide Forecasts"
return {$n/body/body.content}
}
</nitf>
"""
HEDLINE = "<hedline><hl1>Banks &amp; <em>bonds</em></hl1></hedline>"
CONTENT = '<body.content>\n<p>Shares rose.</p><!-- a comment --><media><img src="chart.png"/></media>\n</body.content>'


def article(area: str, subject: str, series: str = "") -> str:
    """An article in the manner of NITF; the paper's elements, and others between and beside them."""
    return (
        f'<nitf><head><title>News</title><tobject><tobject.subject tobject.subject.type="{subject}"/></tobject>'
        f'<docdata>{series}</docdata><pubdata type="print" edition.area="{area}"/></head>'
        f"<body><body.head>{HEDLINE}<dateline/></body.head>{CONTENT}<body.end/></body></nitf>"
    )


SERIES = '<series series.name="Tide Forecasts"/>'


def delivered(query: str, document: str) -> bytes | None:
    """The payload as canonical XML inside a wrapper; None without a delivery."""
    made = made_of(drawn(query, ["true()"]), document.encode())
    if made is None:
        return None
    assert made.refused == ""
    return canonical(wrapped(made.payload), exclusive=False)


def expected(result: str) -> bytes:
    return canonical(wrapped(result.encode()), exclusive=False)


def test_stock_news() -> None:
    """Section 2.1: a new article with the root stock_news, which contains what the two paths select."""
    made = f"<stock_news>{HEDLINE}{CONTENT}</stock_news>"
    assert delivered(STOCKS, article("SF", "Stock")) == expected(made)


@pytest.mark.parametrize(
    "document", [article("NY", "Stock"), article("SF", "Sports"), f"<a>{article('SF', 'Stock')}</a>"]
)
def test_stock_news_match_no_other_article(document: str) -> None:
    """The for and where clauses are equivalent to the path query above them in the paper."""
    assert delivered(STOCKS, document) is None
    index = Index()
    index.add("2.1", '$msg/nitf[head/pubdata[@edition.area="SF"]][//tobject.subject[@tobject.subject.type="Stock"]]')
    assert index.match(document.encode()) == []
    assert index.match(article("SF", "Stock").encode()) == ["2.1"]


def test_early_projection() -> None:
    """Section 3.2: the message is projected onto the articles of interest; the order stays."""
    inside = [article("SF", "Stock"), article("NY", "Stock"), article("SF", "Sports", SERIES), article("LA", "Stock")]
    batch = f"<batched-nitf>\n{inside[0]}\n{inside[1]}{inside[2]}<ad/>{inside[3]}</batched-nitf>"
    assert delivered(PROJECTION, batch) == expected(f"<batched-nitf>{inside[0]}{inside[2]}</batched-nitf>")


def test_early_projection_of_nothing() -> None:
    """Plain XQuery would send an empty batch along the link; without a binding there is no delivery."""
    assert delivered(PROJECTION, f"<batched-nitf>{article('NY', 'Stock')}</batched-nitf>") is None


def test_tide_forecasts() -> None:
    """Figure 5, Q3: the content of the article inside the root nitf, and nothing else of it."""
    assert delivered(TIDES, article("SF", "Fishing", SERIES)) == expected(f"<nitf>{CONTENT}</nitf>")
    assert delivered(TIDES, article("NY", "Fishing", SERIES)) is None
    assert delivered(TIDES, article("SF", "Fishing")) is None


@pytest.mark.parametrize("query", [STOCKS, PROJECTION, TIDES.replace("{$n/body/body.content}", "$n/body/body.content")])
def test_saxon_says_the_same(query: str) -> None:
    batch = f"<batched-nitf>{article('SF', 'Stock')}{article('NY', 'Stock')}</batched-nitf>"
    documents = [article("SF", "Stock", SERIES), batch]
    verdicts = saxon().results([drawn(query, ["true()"])], [document.encode() for document in documents])
    for document, (verdict,) in zip(documents, verdicts, strict=True):
        payload = delivered(query, document)
        assert verdict is not None
        assert payload is None or payload == canonical(verdict.result, exclusive=False)
