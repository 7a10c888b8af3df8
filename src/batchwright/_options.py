"""
The options of a runner, checked and resolved, as its calls use them.
"""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any

from batchwright._context import Judge
from batchwright.config import Polling, RetryBudget, ShardLimits, SyncLimits
from batchwright.policy import DispatchPolicy
from batchwright.store import OnChanged


@dataclass(frozen=True, slots=True, kw_only=True)
class Options:
    """The options of a runner, checked and resolved."""

    policy: DispatchPolicy
    policy_name: str
    limits: ShardLimits
    polling: Polling
    retry: RetryBudget
    sync: SyncLimits
    judge: Judge | None
    on_changed: OnChanged
    retry_rejected: bool
    preflight: bool
    canary: int
    store_name: str

    def asked(self) -> dict[str, Any]:
        """Return what was asked, for the report: plain values, nothing secret."""
        return {
            "limits": asdict(self.limits),
            "polling": asdict(self.polling),
            "retry": asdict(self.retry),
            "sync": asdict(self.sync),
            "store": self.store_name,
        }
