"""Describe a dataset, and verify it."""

from dataformats.inspecting.description import FileInfo, Info, info
from dataformats.inspecting.diff_report import DiffReport, diff
from dataformats.inspecting.finding import Finding
from dataformats.inspecting.finding_groups import FindingGroup
from dataformats.inspecting.verification import VerifyReport, verify

__all__ = ["DiffReport", "FileInfo", "Finding", "FindingGroup", "Info", "VerifyReport", "diff", "info", "verify"]
