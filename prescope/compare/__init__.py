"""The same prompts under several policies, side by side."""

from prescope.compare.row import Comparison, Row
from prescope.compare.runner import compare
from prescope.compare.settings import DEFAULT_POLICIES, CompareSettings

__all__ = ["DEFAULT_POLICIES", "CompareSettings", "Comparison", "Row", "compare"]
