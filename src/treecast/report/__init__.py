"""The report of a job: a picture and a page, made from plain figures.

`Figures` holds the numbers. `write_page` makes one self-contained HTML file, `write_chart` a PNG, and `write_panels`
draws the panels of an experiment; `detail_of` says what a report shows of one document. This is the only room that
imports matplotlib, and only when a PNG is drawn.
"""

from treecast.report.chart import write_chart
from treecast.report.document_details import detail_of
from treecast.report.figures import DocumentDetail, Figures, MatchDetail, Moment, Piece, RefusedDocument, SlowDocument
from treecast.report.page import write_page
from treecast.report.panels import Panel, Series, write_panels

__all__ = [
    "DocumentDetail",
    "Figures",
    "MatchDetail",
    "Moment",
    "Panel",
    "Piece",
    "RefusedDocument",
    "Series",
    "SlowDocument",
    "detail_of",
    "write_chart",
    "write_page",
    "write_panels",
]
