"""
What to type next: commands that are right as they stand, quoted for the shell.
"""

from __future__ import annotations

import shlex
from collections.abc import Mapping

from batchwright._replies import UNSENT
from batchwright.cli._options import Where
from batchwright.types import ON_REQUEST, TAKEN_UP

#: Items that have no outcome yet are told with these words when a run is looked at.
OPEN = frozenset({"waiting", "in_flight"})
#: Reasons of items that were never worked on at the API, or whose requests it ended unbilled.
UNPAID = frozenset({"canceled"})


def command(name: str, where: Where, *more: str, base_url: str | None = None) -> str:
    """Return a command line on the same run."""
    parts = ["batchwright", name, where.flags(), *more]
    if base_url is not None:
        parts.append(f"--base-url {shlex.quote(base_url)}")
    return " ".join(part for part in parts if part)


def hints_for(message: str) -> list[str]:
    """Return what to do about the message with which an account stopped a run."""
    if "authentication method" in message:  # the SDK's own words where it finds no credential
        return [
            "  set ANTHROPIC_API_KEY to your key; to try without one: batchwright simulate",
        ]
    if "HTTP 401" in message:
        return ["  the server does not take this key: look at ANTHROPIC_API_KEY, then resume"]
    if any(name in message for name in UNSENT):
        return [
            "  it cannot be reached: look at the network, and at --base-url or ANTHROPIC_BASE_URL",
        ]
    return []


def next_steps(
    where: Where,
    reasons: Mapping[str, int],
    *,
    base_url: str | None = None,
    out: str | None = None,
    written: bool = False,
) -> list[str]:
    """Return what may be done next about a run in which items failed for *reasons*."""
    to = [f"--out {shlex.quote(out)}"] if out else []
    steps = []
    if any(reason in TAKEN_UP or reason in OPEN for reason in reasons):
        steps.append(f"{command('resume', where, *to, base_url=base_url)}   # goes on")
    again = sorted(reason for reason in reasons if reason in ON_REQUEST)
    if again:
        flags = [f"--resubmit {reason}" for reason in again]
        resume = command("resume", where, *flags, *to, base_url=base_url)
        twice = "" if UNPAID.issuperset(again) else "; they may be paid for twice"
        steps.append(f"{resume}   # sends them anew{twice}")
    if not written and not steps:
        steps.append(f"{command('export', where, '--out OUT.jsonl')}   # writes the results")
    return steps
