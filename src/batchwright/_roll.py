"""
Who works on a run: the living, the dead, and who is to conduct.

Whether somebody on another machine still lives is told by one's own clock alone: whoever has not
beaten for so long, by our count, has lapsed. Clocks that disagree can neither kill nor revive.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

from batchwright import _lease
from batchwright._clock import clock
from batchwright._lease import HEARTBEAT, LAPSE
from batchwright.errors import RunLocked
from batchwright.events import Event, WorkerLost
from batchwright.shared import WORK_FACT, SharedStore, Worker
from batchwright.store import ItemState, Lease, RunInfo

#: Seconds for which one is waited for who has yet to notice that a run is over.
LEAVING: Final = 2 * LAPSE
#: Between two looks so many seconds of silence count at most.
LOOKED: Final = 2 * HEARTBEAT
_LOOK: Final = 0.5


class Vigil:
    """
    Counts for how long somebody has shown no life, while one could have seen it.

    Time in which nobody looked (the store was away, this machine slept) says nothing: when a
    database comes back, nobody has had a chance to beat.
    """

    def __init__(self) -> None:
        self._seen: dict[tuple[int, str], _Silence] = {}

    def is_silent(self, lease: Lease) -> bool:
        """Tell whether the owner of *lease*, as just read, has been silent for too long."""
        now = clock().awake()
        whose = (lease.worker, lease.owner.instance)
        known = self._seen.get(whose)
        if known is None or known.token != lease.token:
            self._seen[whose] = _Silence(lease.token, now)
            return False
        known.seconds += min(now - known.looked_at, LOOKED)
        known.looked_at = now
        return known.seconds > LAPSE


@dataclass(slots=True)
class _Silence:
    token: int
    looked_at: float
    seconds: float = 0.0


class Roll:
    """The workers of one run, as one process sees them."""

    def __init__(self, store: SharedStore, run_id: str, emit: Callable[[Event], None]) -> None:
        self._store = store
        self._run_id = run_id
        self._emit = emit
        self._vigil = Vigil()
        #: This process, as an owner of leases.
        self.here = _lease.myself()

    async def look(self, own: Lease | None = None) -> list[Worker]:
        """Return the workers that live, *own* among them; the others are buried."""
        found = await self._store.read_workers(self._run_id)
        return [worker for worker in found if await self._lives(worker.lease, own)]

    async def _lives(self, lease: Lease, own: Lease | None) -> bool:
        return (own is not None and lease.worker == own.worker) or not await self._bury(lease)

    async def _bury(self, lease: Lease) -> bool:
        """Succeed a worker that does not live any more; tell whether this was one."""
        dead = _lease.certainly_dead(lease.owner, self.here)
        if not dead and not self._vigil.is_silent(lease):
            return False
        if not await self._store.bury(lease, dead=dead):
            return False
        owner = f"process {lease.owner.pid} on {lease.owner.host}"
        self._emit(WorkerLost(run_id=self._run_id, worker=lease.worker, owner=owner, certain=dead))
        return True

    async def succeed(self) -> tuple[Lease, bool] | None:
        """
        Become the owner of the run where nobody is; tell also whether who was is certainly dead.

        `None` where somebody lives who is.
        """
        held = await self._store.read_lease(self._run_id)
        dead = held is None or _lease.certainly_dead(held.owner, self.here)
        if held is not None and not dead and not self._vigil.is_silent(held):
            return None
        token = None if held is None else held.token
        try:
            lease = await self._store.acquire(
                self._run_id, self.here, clock().now(), replacing=token
            )
        except RunLocked:
            return None
        return lease, dead


def is_open(info: RunInfo) -> bool:
    """Tell whether the shards of a run may be claimed."""
    return bool((info.facts.get(WORK_FACT) or {}).get("open"))


def turn_of(info: RunInfo) -> int:
    """Return how often work on a run has come to an end for all."""
    return int((info.facts.get(WORK_FACT) or {}).get("turn", 0))


def is_left(info: RunInfo) -> bool:
    """Tell whether anything of a run waits or travels."""
    return bool(info.states[ItemState.PENDING] or info.states[ItemState.IN_FLIGHT])


def is_stopped(info: RunInfo) -> bool:
    """Tell whether work on a run ended because accounts were stopped, with something left."""
    return bool((info.facts.get(WORK_FACT) or {}).get("stops")) and is_left(info)


async def wait_for_items(store: SharedStore, run_id: str, wait: float) -> None:
    """
    Return once the items of a run are all there, or have not come in time.

    They are waited for *wait* seconds, and on as long as somebody shows that he reads items.
    """
    until = clock().monotonic() + wait
    token = -1
    while True:
        info = await store.read_run(run_id)
        if (info is not None and info.intake_complete) or clock().monotonic() >= until:
            return
        held = await store.read_lease(run_id)
        if held is not None and held.token != token:
            token, until = held.token, max(until, clock().monotonic() + LAPSE)
        await clock().sleep(min(_LOOK, max(until - clock().monotonic(), 0.01)))


async def be_alone(store: SharedStore, lease: Lease, emit: Callable[[Event], None]) -> None:
    """
    Make sure that nobody but the owner of the run works on it, and that nobody can begin to.

    Workers that are leaving are waited for, and so are those that may be dead.

    Raises:
        RunLocked: Others are at work.
    """
    roll = Roll(store, lease.run_id, emit)
    since = clock().awake()
    first: dict[int, int] = {}
    while True:
        info = await store.read_run(lease.run_id)
        living = await roll.look()
        if not living and (info is None or not is_open(info)):
            return
        if not living:
            # Whoever joined before this is seen by the next look; who joins later finds it closed.
            work = {**info.facts[WORK_FACT], "open": False} if info is not None else {}
            await store.put_facts(lease, {WORK_FACT: work})
            continue
        for worker in living:
            _refuse_living(worker, first, roll, busy=info is not None and is_open(info))
        if clock().awake() - since > LEAVING:
            raise _at_work(living[0])
        await clock().sleep(_LOOK)


def _refuse_living(worker: Worker, first: dict[int, int], roll: Roll, *, busy: bool) -> None:
    """Raise where *worker* shows that it lives, and the run is open for work."""
    lease = worker.lease
    near = (lease.owner.host, lease.owner.boot) == (roll.here.host, roll.here.boot)
    beaten = first.setdefault(lease.worker, lease.token) != lease.token
    if busy and (near or beaten):
        raise _at_work(worker)


def _at_work(worker: Worker) -> RunLocked:
    owner = worker.lease.owner
    return RunLocked(
        worker.lease.run_id, f"worker {worker.lease.worker}, process {owner.pid} on {owner.host}"
    )
