"""Report: tables, tests of significance, pictures and the page of a benchmark, from its results alone."""

from typing import TYPE_CHECKING

from mcvrp.face import lazy

if TYPE_CHECKING:
    from mcvrp.tasks.report.lines import gaps as gaps, paired as paired
    from mcvrp.tasks.report.summary import BenchmarkSummary as BenchmarkSummary
    from mcvrp.tasks.report.tables import Table as Table
    from mcvrp.tasks.report.write import write_report as write_report
else:
    __getattr__, __dir__ = lazy(
        __name__, lines="gaps paired", tables="Table", summary="BenchmarkSummary", write="write_report"
    )
