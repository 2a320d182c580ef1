"""What leaves the framework: trained models as files that other programs run."""

from unseen.search.export import ExportSettings as ExportSettings
from unseen.search.export import export_run as export_run
