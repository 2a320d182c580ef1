"""Reports: one self-contained HTML page, and the same ranking for terminals, spreadsheets and papers."""

from unseen.reports.page import build_report as build_report
from unseen.reports.page import collect as collect
from unseen.reports.page import write_report as write_report
from unseen.reports.tables import write_tables as write_tables
from unseen.reports.terminal import terminal_table as terminal_table
from unseen.studies.results.content import Content as Content
from unseen.studies.results.content import FailedCell as FailedCell
from unseen.studies.results.content import Row as Row
