"""Old name of :mod:`adc_wrappers.policy.export`."""

import warnings

from adc_wrappers.policy.export import TOLERANCE, ExportReport, export_policy, export_run
from adc_wrappers.policy.metadata import ExportError

__all__ = ["TOLERANCE", "ExportError", "ExportReport", "export_policy", "export_run"]

warnings.warn("adc_wrappers.export is now adc_wrappers.policy.export", DeprecationWarning, stacklevel=2)
