"""What a job has to show for itself: a picture and a page, drawn from plain figures.

`Figures` holds the numbers, whoever counted them; `write_page` makes one HTML file that needs nothing else,
`write_chart` a PNG; `write_panels` draws the panels of an experiment. The only room that imports matplotlib, and
only when a PNG is drawn.
"""

from treecast.report.chart import write_chart
from treecast.report.figures import Figures, Moment, RefusedDocument, SlowDocument
from treecast.report.page import write_page
from treecast.report.panels import Panel, Series, write_panels

__all__ = [
    "Figures",
    "Moment",
    "Panel",
    "RefusedDocument",
    "Series",
    "SlowDocument",
    "write_chart",
    "write_page",
    "write_panels",
]
