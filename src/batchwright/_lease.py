"""
Who owns a run: one live process.

A dead process on the same machine and boot is succeeded at once; elsewhere, or where that cannot
be told, the lease lapses some seconds after its last heartbeat.
"""

from __future__ import annotations

import os
import socket
from datetime import datetime
from pathlib import Path

from batchwright._clock import clock
from batchwright.errors import RunLocked
from batchwright.store import CheckpointStore, Lease, Owner

#: Seconds after the last heartbeat until a lease lapses.
LAPSE = 15.0

_BOOT_ID = Path("/proc/sys/kernel/random/boot_id")


def myself() -> Owner:
    """Return this process as an owner."""
    pid = os.getpid()
    return Owner(
        host=socket.gethostname(),
        boot=_read(_BOOT_ID),
        pid=pid,
        started=_start_of(pid),
        instance=clock().new_id(),
    )


def _read(path: Path) -> str:
    try:
        return path.read_text().strip()
    except OSError:
        return ""


def _start_of(pid: int) -> str:
    """Return the start time of a process (so that a reused pid is not taken for it), or ``""``."""
    # The name in parentheses may hold spaces and parentheses; what follows it does not.
    fields = _read(Path(f"/proc/{pid}/stat")).rpartition(")")[2].split()
    return fields[19] if len(fields) > 19 else ""


def _is_dead(owner: Owner, here: Owner) -> bool:
    """Tell whether *owner* certainly does not live any more; `False` where it cannot be told."""
    if owner.host != here.host or owner.boot != here.boot:
        return False
    try:
        os.kill(owner.pid, 0)
    except ProcessLookupError:
        return True
    except OSError:
        return False
    return bool(owner.started) and owner.started != _start_of(owner.pid)


def may_succeed(lease: Lease, here: Owner, now: datetime) -> bool:
    """Tell whether the owner of *lease* is gone."""
    if _is_dead(lease.owner, here):
        return True
    return (now - lease.beat_at).total_seconds() > LAPSE


async def take(store: CheckpointStore, run_id: str) -> tuple[Lease, bool]:
    """
    Become the owner of the run; tell also whether the owner before is certainly gone.

    Raises:
        RunLocked: Another live process owns it.
    """
    here, now = myself(), clock().now()
    held = await store.read_lease(run_id)
    if held is not None and not may_succeed(held, here, now):
        owner = held.owner
        quiet = max((now - held.beat_at).total_seconds(), 0.0)
        raise RunLocked(
            run_id, f"process {owner.pid} on {owner.host}, last heard of {quiet:.0f} s ago"
        )
    token = None if held is None else held.token
    gone = held is None or _is_dead(held.owner, here)
    return await store.acquire(run_id, here, now, replacing=token), gone
