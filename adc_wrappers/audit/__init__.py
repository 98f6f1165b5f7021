"""Audits: what a policy asks of a robot's joints, measured in simulation before any trial."""

from .limits import AUDITS, AuditLimits, find_audit
from .verdict import Audit, AuditItem, file_digest, read_audit

__all__ = ["AUDITS", "Audit", "AuditItem", "AuditLimits", "file_digest", "find_audit", "read_audit"]
