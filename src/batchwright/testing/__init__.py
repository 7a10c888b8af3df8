"""Help for testing code that uses batches: a simulated API, and suites for your own stores."""

from __future__ import annotations

from batchwright.simulator import Simulator
from batchwright.testing.conformance import (
    CHECKS,
    SHARED_CHECKS,
    check_checkpoint_store,
    check_shared_store,
    run_store_check,
)
from batchwright.testing.policies import POLICY_CHECKS, check_dispatch_policy
from batchwright.testing.server import simulate

__all__ = [
    "CHECKS",
    "POLICY_CHECKS",
    "SHARED_CHECKS",
    "Simulator",
    "check_checkpoint_store",
    "check_dispatch_policy",
    "check_shared_store",
    "run_store_check",
    "simulate",
]
