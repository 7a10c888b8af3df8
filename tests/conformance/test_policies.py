"""
The policies that come with the library keep every promise of the port; broken ones are found.
"""

from __future__ import annotations

from datetime import UTC, datetime

import pytest

from batchwright._deadline import Deadline
from batchwright.errors import ConfigurationError
from batchwright.policy import AdaptivePolicy, Stay, Switch, resolve_policy
from batchwright.testing import policies
from batchwright.testing.policies import POLICY_CHECKS, check_dispatch_policy

SHIPPED = {
    **{name: resolve_policy(name) for name in ("batch", "sync", "cost", "balanced", "latency")},
    "cost when wedged": AdaptivePolicy("cost", wedge_after=2_700.0),
    "by seconds": Deadline(36_000.0),
    "by a date": Deadline(datetime(2026, 11, 29, 20, tzinfo=UTC), safety=2.0),
}


@pytest.mark.parametrize("check", POLICY_CHECKS, ids=lambda check: check.__name__)
@pytest.mark.parametrize("name", SHIPPED)
def test_policy(name, check):
    """The policy keeps the promise that is the check's docstring."""
    check(SHIPPED[name])


class Counting:
    """Counts its questions."""

    asked = 0

    def decide(self, snapshot):
        self.asked += 1
        return Stay("always")


class Moody:
    """Says something else each time, out of sight."""

    _asked: list[object] = []  # noqa: RUF012 - shared and hidden on purpose

    def decide(self, snapshot):
        self._asked.append(snapshot)
        return Stay(f"question {len(self._asked)}")


class Awaited:
    """Decides in a coroutine."""

    async def decide(self, snapshot):
        return Stay("always")


class Boolean:
    """Says yes."""

    def decide(self, snapshot):
        return True


class Silent:
    """Gives no reason."""

    def decide(self, snapshot):
        return Stay(" ")


class Trusting:
    """Trusts that projections are known."""

    def decide(self, snapshot):
        sooner = snapshot.sync_finish.likely * 2 < snapshot.batch_finish.high
        return Switch("sooner") if sooner else Stay("later")


class Fiddling:
    """Writes into the snapshot."""

    def decide(self, snapshot):
        snapshot.facts["seen"] = True
        return Stay("always")


class Shrinking:
    """Takes back what has switched."""

    def decide(self, snapshot):
        return Switch("some of it", share=0.1)


class Unsound:
    """Wants no confirmation at all."""

    confirmations = 0

    def decide(self, snapshot):
        return Stay("always")


@pytest.mark.parametrize(
    ("policy", "error", "message"),
    [
        (Counting(), AssertionError, "changed the policy"),
        (Moody(), AssertionError, "asked again"),
        (Awaited(), AssertionError, "not awaited"),
        (Boolean(), AssertionError, "neither a Stay nor a Switch"),
        (Silent(), AssertionError, "no reason"),
        (Trusting(), AssertionError, "raised TypeError"),
        (Fiddling(), AssertionError, "changed the snapshot"),
        (Shrinking(), AssertionError, "cannot shrink"),
        (Unsound(), ConfigurationError, "confirmations"),
    ],
    ids=lambda value: type(value).__name__ if hasattr(value, "decide") else "",
)
def test_broken_policies_are_found(policy, error, message):
    """A policy that breaks a promise fails with the promise's name."""
    with pytest.raises(error, match=message):
        check_dispatch_policy(policy)


def test_slow_policies_are_found(monkeypatch):
    """A policy that holds the event loop up is found, without a slow test."""
    ticks = iter(range(10**6))
    monkeypatch.setattr(policies, "thread_clock", lambda: float(next(ticks)))

    with pytest.raises(AssertionError, match="took 1.000 s"):
        check_dispatch_policy(resolve_policy("cost"))
