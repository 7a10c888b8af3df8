"""
The simulated disk: a store that outlives its processes, seen by each through a door of its own.

Every call passes a point; a write passes another one behind its effect. What a process does after
its death is refused at the door.
"""

from __future__ import annotations

import inspect
import shutil
import tempfile
from hashlib import blake2b
from pathlib import Path
from typing import Any

from tests.simulation.history import Op
from tests.simulation.life import Life

from batchwright.errors import StoreBusy
from batchwright.shared import SharedStore
from batchwright.store import FINAL, CheckpointStore
from batchwright.stores import MemoryStore, SQLiteStore

_METHODS = {
    name: method
    for name, method in vars(CheckpointStore).items()
    if inspect.iscoroutinefunction(method)
}
WRITES = frozenset(
    name
    for name, method in _METHODS.items()
    if name == "acquire" or "lease" in inspect.signature(method).parameters
)
#: What stands in the history: reads change nothing, and the heart beats all the time.
RECORDED = set(WRITES - {"renew"})
_SIGNATURES = {name: inspect.signature(method) for name, method in _METHODS.items()}


class MemoryDisk:
    """Runs in plain dicts: each call is whole or not begun."""

    def __init__(self) -> None:
        self.store: CheckpointStore = MemoryStore()

    async def start(self) -> None:
        """Make it ready for a process."""

    async def crash(self) -> None:
        """Lose what a killed process had not written."""

    async def stop(self) -> None:
        """Clean up after the last process."""


class SQLiteDisk:
    """A real SQLite file; a killed process leaves it, and its log, as they are."""

    def __init__(self) -> None:
        shm = Path("/dev/shm")
        self._folder = Path(tempfile.mkdtemp(prefix="bw-sim-", dir=shm if shm.is_dir() else None))
        self._images = 0
        self.store = SQLiteStore(self._folder / "0.db", busy_timeout=0.1)

    async def start(self) -> None:
        """Open the image."""
        await self.store.open()

    async def crash(self) -> None:
        """Go on from the bytes that lie there now, as after a kill; the old owner is gone."""
        dead, old = self.store, self.store.path
        self._images += 1
        new = self._folder / f"{self._images}.db"
        _copy(old, new)
        await dead.close()
        self.store = SQLiteStore(new, busy_timeout=0.1)
        await self.store.open()

    async def stop(self) -> None:
        """Close and delete everything."""
        await self.store.close()
        shutil.rmtree(self._folder, ignore_errors=True)


def _copy(old: Path, new: Path) -> None:
    for end in ("", "-wal"):
        part = Path(f"{old}{end}")
        if part.exists():
            shutil.copyfile(part, f"{new}{end}")


class Door:
    """A `CheckpointStore` as one process sees it."""

    def __init__(self, life: Life, disk: Any) -> None:
        self._life = life
        self._disk = disk

    def __repr__(self) -> str:
        return "Door()"

    async def open(self) -> None:
        """See `CheckpointStore.open`; the disk itself is always there."""
        await self._life.point("store.open")

    async def close(self) -> None:
        """See `CheckpointStore.close`."""
        self._life.check()

    async def _pass(self, name: str, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        life, world = self._life, self._life.world
        act = await life.point(f"store.{name} before")
        trick = world.faults.draw("store")
        if trick == "store_slow":
            await life.sleep(world.faults.stream("slow").uniform(0.1, 20.0))
        busy = act == "error" or trick == "store_busy"
        if name not in RECORDED:
            if busy:
                raise StoreBusy("the simulated disk is busy")
            return await getattr(self._disk.store, name)(*args, **kwargs)
        bound = _SIGNATURES[name].bind(self, *args, **kwargs).arguments
        op = world.history.invoke(world.time(), life.number, f"store.{name}", **_key(name, bound))
        if busy:
            world.history.end(op, world.time(), "fail", "busy")
            raise StoreBusy("the simulated disk is busy")
        return await self._do(name, op, bound, args, kwargs)

    async def _do(
        self,
        name: str,
        op: Op,
        bound: dict[str, Any],
        args: tuple[Any, ...],
        kwargs: dict[str, Any],
    ) -> Any:
        life, world = self._life, self._life.world
        try:
            result = await getattr(self._disk.store, name)(*args, **kwargs)
        except Exception as error:
            world.history.end(op, world.time(), "fail", type(error).__name__)
            raise
        op.facts["stored"] = _made(name, bound, result)
        try:
            await life.point(f"store.{name} after")
        except BaseException:
            world.history.end(op, world.time(), "info", "nobody was there")
            raise
        world.history.end(op, world.time(), "ok", op.facts["stored"])
        return result


def _method(name: str) -> Any:
    async def call(self: Door, *args: Any, **kwargs: Any) -> Any:
        return await self._pass(name, args, kwargs)

    call.__name__ = name
    call.__doc__ = f"See `CheckpointStore.{name}`."
    return call


for _name in set(_METHODS) - {"open", "close"}:
    setattr(Door, _name, _method(_name))


_SHARED = {
    name: method
    for name, method in vars(SharedStore).items()
    if inspect.iscoroutinefunction(method)
}
_SIGNATURES |= {name: inspect.signature(method) for name, method in _SHARED.items()}
RECORDED |= {"join", "bury", "claim", "put_down", "plan_part"}


class SharedDoor(Door):
    """A `SharedStore` as one of several processes sees it."""

    is_shared = False


for _name in _SHARED:
    setattr(SharedDoor, _name, _method(_name))


def _key(name: str, bound: dict[str, Any]) -> dict[str, Any]:
    """Return what identifies a call in the history, small and the same in every process."""
    if name == "move_shard":
        facts = dict(bound.get("facts") or {})
        wanted = {"batch_id": facts.get("batch_id"), "reason": facts.get("reason")}
        rest = bound.get("rest")
        return {
            "number": bound["number"],
            "to": str(bound["to"]),
            "rest": None if rest is None else rest.state.name,
            "cancel": facts.get("cancel"),
            **wanted,
        }
    if name == "settle":
        return {"number": bound.get("number")}
    if name == "put_facts" and "switch" in bound["facts"]:
        return {"switch": bound["facts"]["switch"] is not None}
    return {}


def _made(name: str, bound: dict[str, Any], result: Any) -> Any:
    """Return what a write made durable, for the checkers."""
    if name in {"plan_shard", "plan_part"}:
        return (result.number, tuple(result.spans))
    if name == "settle":
        return tuple(
            (said.seq, said.state.name, said.reason, what, said.batch_id, hash_of(said.raw))
            for said, what in zip(bound["settlements"], result, strict=True)
        )
    if name == "acquire":
        return result.token
    if name == "claim":
        return tuple(shard.number for shard in result)
    if name == "commit_intake":
        return result.items
    return None


def hash_of(raw: bytes | None) -> str | None:
    """Return a short hash of an answer's bytes."""
    return None if raw is None else blake2b(raw, digest_size=6).hexdigest()


def finals(op: Op) -> list[tuple[int, str, str | None]]:
    """Return what a settle made final: place, state, hash of the bytes."""
    names = {state.name for state in FINAL}
    stored = op.facts.get("stored") or ()
    return [
        (seq, state, raw)
        for seq, state, _, what, _, raw in stored
        if what == "applied" and state in names
    ]
