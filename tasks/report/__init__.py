"""Report of a benchmark: tables, tests of significance, figures and the HTML page."""

from typing import TYPE_CHECKING

from mcvrp.face import lazy

if TYPE_CHECKING:
    from mcvrp.tasks.report.metrics import paired as paired, wins as wins
    from mcvrp.tasks.report.tables import Table as Table
    from mcvrp.tasks.report.write import BenchmarkSummary as BenchmarkSummary, write_report as write_report
else:
    __getattr__, __dir__ = lazy(__name__, __file__)
