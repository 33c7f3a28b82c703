"""What a job has to show for itself: a picture and a page, drawn from plain figures.

`Figures` holds the numbers, whoever counted them; `write_page` makes one HTML file that needs nothing else,
`write_chart` a PNG. The only room that imports matplotlib, and only when a PNG is drawn.
"""

from treecast.report.chart import write_chart
from treecast.report.figures import Figures, Moment, RefusedDocument, SlowDocument
from treecast.report.page import write_page

__all__ = ["Figures", "Moment", "RefusedDocument", "SlowDocument", "write_chart", "write_page"]
