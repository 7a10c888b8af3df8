"""
Who owns a run: one live process.

A dead process on the same machine and boot is succeeded at once; elsewhere, or where that cannot
be told, the lease lapses some seconds after its last heartbeat.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import socket
from collections.abc import AsyncIterator, Callable
from datetime import datetime
from pathlib import Path

import anyio

from batchwright._clock import clock
from batchwright.errors import BatchwrightError, RunLocked, StoreError
from batchwright.events import Event, WaitingForOwner
from batchwright.store import CheckpointStore, Lease, Owner

#: Seconds after the last heartbeat until a lease lapses.
LAPSE = 15.0
#: Seconds between two heartbeats.
HEARTBEAT = 3.0
#: Seconds for which the lease of another machine is watched, however old it looks: its clock may be
#: off by hours, but whoever lives beats its heart in that time.
WATCH = 2.0 * HEARTBEAT + 1.0

#: Owners in this process that have ended and could not give their lease back (a full disk, say).
_abandoned: set[str] = set()

_BOOT_ID = Path("/proc/sys/kernel/random/boot_id")
#: Containers on one machine may share its name, and each counts its processes for itself.
_PID_SPACE = Path("/proc/self/ns/pid")


def myself() -> Owner:
    """Return this process as an owner."""
    pid = os.getpid()
    return Owner(
        host=socket.gethostname(),
        boot=f"{_read(_BOOT_ID)}{_pid_space()}",
        pid=pid,
        started=_start_of(pid),
        instance=clock().new_id(),
    )


def _read(path: Path) -> str:
    try:
        return path.read_text().strip()
    except OSError:
        return ""


def _pid_space() -> str:
    """Return what tells processes apart that count themselves in spaces of their own."""
    try:
        return f" {_PID_SPACE.readlink()}"
    except OSError:
        return ""


def _start_of(pid: int) -> str:
    """Return the start time of a process (so that a reused pid is not taken for it), or ``""``."""
    # The name in parentheses may hold spaces and parentheses; what follows it does not.
    fields = _read(Path(f"/proc/{pid}/stat")).rpartition(")")[2].split()
    return fields[19] if len(fields) > 19 else ""


def _is_dead(owner: Owner, here: Owner) -> bool:
    """Tell whether *owner* certainly does not live any more; `False` where it cannot be told."""
    if owner.instance in _abandoned:
        return True
    if owner.host != here.host or owner.boot != here.boot:
        return False
    try:
        os.kill(owner.pid, 0)
    except ProcessLookupError:
        return True
    except OSError:
        return False
    return bool(owner.started) and owner.started != _start_of(owner.pid)


def certainly_dead(owner: Owner, here: Owner) -> bool:
    """Tell whether *owner* can be seen from *here* not to live any more."""
    return _is_dead(owner, here)


def abandon(lease: Lease) -> None:
    """Remember that the owner of *lease*, in this process, has ended without giving it back."""
    _abandoned.add(lease.owner.instance)


def may_succeed(lease: Lease, here: Owner, now: datetime) -> bool:
    """Tell whether the owner of *lease* is gone."""
    if _is_dead(lease.owner, here):
        return True
    return (now - lease.beat_at).total_seconds() > LAPSE


async def take(
    store: CheckpointStore, run_id: str, emit: Callable[[Event], None]
) -> tuple[Lease, bool]:
    """
    Become the owner of the run; tell also whether the owner before is certainly gone.

    An owner on another machine may be dead or alive: its heartbeat is waited for, and where none
    comes the lease lapses.

    Raises:
        RunLocked: Another live process owns it.
    """
    here = myself()
    held = await store.read_lease(run_id)
    if held is not None and not _is_dead(held.owner, here):
        held = await _outwait(store, held, here, emit)
    token = None if held is None else held.token
    gone = held is None or _is_dead(held.owner, here)
    return await store.acquire(run_id, here, clock().now(), replacing=token), gone


async def _outwait(
    store: CheckpointStore, held: Lease, here: Owner, emit: Callable[[Event], None]
) -> Lease | None:
    """Return the lease once it has lapsed; refuse as soon as its owner shows that it lives."""
    owner, quiet = held.owner, (clock().now() - held.beat_at).total_seconds()
    if owner.host == here.host and owner.boot == here.boot:
        # One clock for both, so its word is enough.
        if may_succeed(held, here, clock().now()):
            return held
        raise _locked(held, quiet)
    wait = max(LAPSE - max(quiet, 0.0), WATCH)
    began = clock().monotonic()
    beat: Lease | None = held
    while beat is not None:
        if beat.token != held.token:
            raise _locked(beat, 0.0)
        left = wait - (clock().monotonic() - began)
        if left <= 0:
            return beat
        told = f"process {owner.pid} on {owner.host}"
        emit(WaitingForOwner(run_id=held.run_id, owner=told, left=left))
        await clock().sleep(min(max(left, 0.01), 1.0))
        beat = await store.read_lease(held.run_id)
    return None


def _locked(lease: Lease, quiet: float) -> RunLocked:
    owner = lease.owner
    heard = f"last heard of {max(quiet, 0.0):.0f} s ago"
    return RunLocked(lease.run_id, f"process {owner.pid} on {owner.host}, {heard}")


async def beat(store: CheckpointStore, lease: Lease) -> None:
    """
    Keep the lease alive, from taking the run over to giving it up: reading items may take long.

    A lost lease ends it without a word: the next write is refused, and says so.
    """
    while True:
        await clock().sleep(HEARTBEAT)
        try:
            lease = await store.renew(lease, clock().now())
        except RunLocked:
            return
        except StoreError:
            # Busy or full for the moment; whether that matters the work itself will find.
            continue


@contextlib.asynccontextmanager
async def kept(store: CheckpointStore, lease: Lease) -> AsyncIterator[None]:
    """Keep a lease alive until all that rests on it has come to its end, and give it back then."""
    heart = asyncio.create_task(beat(store, lease))
    try:
        yield
    finally:
        heart.cancel()
        with anyio.CancelScope(shield=True):
            try:
                await store.release(lease)
            except BatchwrightError:
                # A lost lease or a full disk was raised already.
                abandon(lease)
            except asyncio.CancelledError:
                # Told to stop a second time, as by Ctrl-C twice: this process goes on at once.
                abandon(lease)
                raise
