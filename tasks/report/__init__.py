"""Report of a benchmark: tables, tests of significance, figures and the HTML page."""
