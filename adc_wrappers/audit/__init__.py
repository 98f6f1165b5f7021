"""Audits: what a policy asks of a robot's joints, measured in simulation before any trial."""

from .verdict import AUDITS, Audit, AuditItem, AuditLimits, file_digest, find_audit, read_audit

__all__ = ["AUDITS", "Audit", "AuditItem", "AuditLimits", "file_digest", "find_audit", "read_audit"]
