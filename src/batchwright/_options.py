"""
The options of a runner, checked and resolved, as its calls use them.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any, cast

from batchwright._context import Judge
from batchwright.config import Polling, RetryBudget, ShardLimits, SyncLimits
from batchwright.errors import ConfigurationError
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
    cache: bool
    store_name: str

    def asked(
        self, before: Mapping[str, Any], talking: Sequence[Mapping[str, str]]
    ) -> dict[str, Any]:
        """
        Return what is asked, as facts for the report: plain values, nothing secret.

        Args:
            before: The facts of earlier waves; what has once been so is not forgotten.
            talking: What is being talked to now.
        """
        talked = before.get("talked_to", before.get("talking_to", []))
        return {
            "talking_to": list(talking),
            "talked_to": talked + [one for one in talking if one not in talked],
            "policy": self.policy_name,
            "attempt_cap": max(before.get("attempt_cap", 1), self.retry.max_attempts),
            "on_changed": self.on_changed,
            "replaced": bool(before.get("replaced")) or self.on_changed == "rerun",
            "stopped_by": [],
            "options": self.turned(),
        }

    def turned(self) -> dict[str, Any]:
        """Return the options that a report tells as they were turned."""
        return {
            "limits": asdict(self.limits),
            "polling": asdict(self.polling),
            "retry": asdict(self.retry),
            "sync": asdict(self.sync),
            "store": self.store_name,
        }


def check_choices(on_changed: OnChanged, canary: int | None) -> None:
    """
    Refuse what the two options do not take.

    Raises:
        ConfigurationError: The message says which.
    """
    if on_changed not in {"error", "rerun", "keep"}:
        raise ConfigurationError(f'on_changed is "error", "rerun" or "keep", not {on_changed!r}')
    if canary is not None and (not isinstance(cast("object", canary), int) or canary < 0):
        raise ConfigurationError(f"canary is a number of items, 0 or more, not {canary!r}")


def check_run_id(run_id: str) -> str:
    """
    Return *run_id* where it can name a run.

    Raises:
        ConfigurationError: It cannot.
    """
    if not isinstance(cast("object", run_id), str) or not run_id:
        raise ConfigurationError(f"run_id must be a string of at least one letter, not {run_id!r}")
    return run_id
