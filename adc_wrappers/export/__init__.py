"""Writing policy files: from a run folder, or from a training loop of your own."""

from .errors import ExportError
from .policy import TOLERANCE, ExportReport, export_policy
from .run import export_run

__all__ = ["TOLERANCE", "ExportError", "ExportReport", "export_policy", "export_run"]
