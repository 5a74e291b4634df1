"""What this environment is fit for, what is degraded, and what to do about it."""

from prescope.doctor.examine import examine
from prescope.doctor.finding import Finding, State

__all__ = ["Finding", "State", "examine"]
