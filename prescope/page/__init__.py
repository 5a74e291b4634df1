"""``prescope inspect --html``: one page that holds everything it shows and needs no network."""

from prescope.page.document import (
    ChartPanel,
    DrawnSchedule,
    HeatPanel,
    Origin,
    PageDocument,
    PageStep,
    TablePanel,
    Timeline,
)
from prescope.page.render import MAX_BYTES, render_page, write_document
from prescope.page.write import write_page

__all__ = [
    "MAX_BYTES",
    "ChartPanel",
    "DrawnSchedule",
    "HeatPanel",
    "Origin",
    "PageDocument",
    "PageStep",
    "TablePanel",
    "Timeline",
    "render_page",
    "write_document",
    "write_page",
]
