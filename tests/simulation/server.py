"""
The server of a simulated run: the shipped simulator's world, and the faults laid over it.

Both levels stand on this. It takes a request, does its effect once, and says what the caller is to
learn of it: an answer, a refusal, or nothing.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

import orjson
from tests.simulation.answers import (
    ACCOUNT,
    CREATE_AFTER,
    CREATE_BEFORE,
    DIRECT_AFTER,
    DIRECT_BEFORE,
    SIMPLE,
    Answer,
    Request,
    chunked,
    lost,
    refusal,
    stranger,
)
from tests.simulation.faults import FaultPlan
from tests.simulation.loop import DAY

from batchwright.simulator import Access, ApiProblem, Books, Fate, World, WorldSettings, errored
from batchwright.simulator.batches import Batch

#: After so many seconds a create that has left is either visible or will never exist.
SETTLED = 240.0
_HIDDEN = (20.0, 120.0)
_LATE = (5.0, 110.0)
#: Of the server's clock: virtual time 0 in seconds since the epoch.
EPOCH = 1_780_315_200.0


@dataclass(frozen=True, slots=True)
class Served:
    """One reading of results: which lines went out whole, and whether the body ended properly."""

    at: float
    ids: frozenset[str]
    proper: bool


@dataclass(slots=True)
class Created:
    """One batch of ours: when its POST left, when it came to be, from when it can be seen."""

    batch_id: str
    custom_ids: tuple[str, ...]
    left: float
    at: float
    visible: float
    org: str = "sim"


@dataclass(slots=True)
class _Late:
    at: float
    left: float
    request: Request


class _Clock:
    """The world's clock: virtual time, or another moment for a question about it."""

    def __init__(self, time: Callable[[], float]) -> None:
        self._time = time
        self.instead: float | None = None

    def now(self) -> float:
        return EPOCH + (self._time() if self.instead is None else self.instead)

    async def sleep(self, seconds: float) -> None:
        raise AssertionError("the simulated server never waits")


@dataclass
class SimServer:
    """
    The API as one workspace sees it.

    Args:
        seed: Of the world.
        time: Virtual time, seconds.
        faults: What goes wrong.
        slow: Whether batches take so long that a wave may want to switch.
    """

    seed: int
    time: Callable[[], float]
    faults: FaultPlan
    slow: bool = False
    created: dict[str, Created] = field(default_factory=dict)
    served: dict[str, list[Served]] = field(default_factory=dict)
    canceled_by: dict[str, str] = field(default_factory=dict)
    #: Direct answers that were given, and so billed: when asked, when given, and the text.
    asked: list[tuple[float, float, str]] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.clock = _Clock(self.time)
        self.access = _access_of("sim")
        self.world = World(self.seed, clock=self.clock, settings=self._settings())
        self._late: list[_Late] = []
        self._bad = random.Random(f"bad {self.seed}").randrange(6)
        self._named = self.seed % 2 == 0
        if self.faults.has("foreign_batches"):
            self._foreign(3)

    def _settings(self) -> WorldSettings:
        chance = random.Random(f"world {self.seed}")
        has = self.faults.has
        low = chance.uniform(15.0, 60.0)
        duration = (0.0, 0.0) if has("at_once") else (low, low + chance.uniform(10.0, 150.0))
        if self.slow:
            duration = (200.0, 2_000.0)
        if has("late_expiry"):
            duration = (60.0, 4_000.0)
        for kind in ("at_once", "late_expiry", "mixed_lines"):
            if has(kind):
                self.faults.strike(kind)
        return WorldSettings(
            duration=duration,
            error_rate=0.2 if has("mixed_lines") else 0.0,
            expire_rate=0.15 if has("mixed_lines") else 0.0,
            error_type=chance.choice(["api_error", "overloaded_error"]),
            poll_hint=10,
            fate=self._fate if has("bad_lines") else None,
            # Waiting out a whole day costs the simulation seconds; most seeds make it shorter.
            lifetime=2_400.0 if self.quick else DAY,
        )

    def _fate(self, custom_id: str, _: object) -> Fate | None:
        """One item of such a world is refused by its line, each time."""
        if not custom_id.startswith(f"item-{(self.seed + 3) % 6}-"):
            return None
        self.faults.strike("bad_lines")
        return errored("invalid_request_error", "this is no question")

    def calm(self) -> None:
        """Let everything go well from now on; what was accepted keeps its fate."""
        self.world.configure(duration=(20.0, 90.0), error_rate=0.0, expire_rate=0.0)

    @property
    def quick(self) -> bool:
        """Whether batches of this world expire within the hour instead of after a day."""
        return self.seed % 40 != 39

    # -- the door -----------------------------------------------------------------------------

    def handle(self, request: Request, trick: str | None, left: float) -> Answer:
        """Do what *request* asks, or what the fault *trick* makes of it; it left at *left*."""
        self.arrive()
        self.access = _access_of(request.org)
        if trick in ACCOUNT:
            return ACCOUNT[trick]()
        try:
            return getattr(self, f"_{request.call}")(request, trick, left)
        except ApiProblem as problem:
            return refusal(problem.status, problem.type, problem.message)

    def later(self, request: Request, left: float, wait: float) -> None:
        """Let a create that is already under way arrive on its own."""
        self._late.append(_Late(self.time() + wait, left, request))

    def arrive(self) -> None:
        """Take in the creates that have arrived on their own by now."""
        due = sorted((late for late in self._late if late.at <= self.time()), key=lambda x: x.at)
        for late in due:
            self._late.remove(late)
            self.clock.instead = late.at
            self.access = _access_of(late.request.org)
            try:
                self._register(late.request.body, late.left)
            except ApiProblem:
                pass
            finally:
                self.clock.instead = None

    # -- creates ------------------------------------------------------------------------------

    def _register(self, body: bytes, left: float, *, hidden: bool = False) -> Batch:
        requests = orjson.loads(body)["requests"]
        self._refuse_body(body, requests)
        batch = self.world.create(self.access, requests)
        at = batch.created_at - EPOCH
        visible = at
        if hidden:
            visible += self.faults.stream("hidden").uniform(*_HIDDEN)
        ids = tuple(request["custom_id"] for request in requests)
        org = self.access.workspace
        self.created[batch.id] = Created(batch.id, ids, left, at, visible, org)
        self._doom(batch)
        return batch

    def _refuse_body(self, body: bytes, requests: Sequence[dict[str, Any]]) -> None:
        faults = self.faults
        if faults.has("too_large") and len(body) > 420 and len(requests) > 1:
            faults.strike("too_large")
            raise ApiProblem(413, "request_too_large", "Request exceeds the maximum size")
        place = next((i for i, r in enumerate(requests) if self._is_bad(r["custom_id"])), None)
        if faults.has("bad_item") and place is not None:
            faults.strike("bad_item")
            where = f"requests.{place}.params: " if self._named else ""
            raise ApiProblem(400, "invalid_request_error", f"{where}this cannot be taken")

    def _is_bad(self, custom_id: str) -> bool:
        return custom_id.startswith(f"item-{self._bad}-")

    def _doom(self, batch: Batch) -> None:
        """Give a new batch the lasting faults that are its own."""
        chance = self.faults.stream("doom")
        for kind, rate in (("never_ends", 0.4), ("stuck_batch", 0.3), ("canceled_elsewhere", 0.4)):
            if self.faults.has(kind) and chance.random() < rate:
                now = self.clock.now()
                if batch.status(now) == "ended":
                    return
                self.faults.strike(kind)
                if kind == "canceled_elsewhere":
                    batch.begin_cancel(now, now + chance.uniform(1.0, 60.0))
                    self.canceled_by[batch.id] = "elsewhere"
                    return
                batch.ends_at = float("inf")
                if kind == "stuck_batch":
                    self.world.configure(stuck=True)
                    batch.settings = self.world.settings
                    self.world.configure(stuck=False)
                return

    def _foreign(self, count: int) -> None:
        """Let somebody else create batches of the same look in this workspace."""
        for number in range(count):
            params = {"model": "claude-haiku-4-5", "max_tokens": 8}
            params["messages"] = [{"role": "user", "content": f"foreign {number}"}]
            size = 1 + self.faults.stream("foreign").randrange(6)
            asked = [{"custom_id": f"their-{number}-{i}", "params": params} for i in range(size)]
            self.world.create(self.access, asked)
        self.faults.strike("foreign_batches")

    def _create(self, request: Request, trick: str | None, left: float) -> Answer:
        chance = self.faults.stream("create more")
        if self.faults.has("foreign_batches") and chance.random() < 0.3:
            self._foreign(1)
        before = CREATE_BEFORE.get(trick or "")
        if before is not None:
            return before(chance)
        if trick == "late_create":
            self.later(request, left, chance.uniform(*_LATE))
            return lost()
        register = trick not in {"hang_create", "edge_429"} or chance.random() < 0.5
        slow = trick is not None and "slow_commit" in self.faults.kinds
        data: dict[str, Any] = {}
        if register:
            data = self._public(self._register(request.body, left, hidden=slow))
        after = CREATE_AFTER.get(trick or "")
        return Answer(data=data) if after is None else after()

    # -- the other calls ----------------------------------------------------------------------

    def _public(self, batch: Batch) -> dict[str, Any]:
        return batch.public(self.clock.now(), "https://api.sim")

    def _seen(self, batch_id: str) -> bool:
        mine = self.created.get(batch_id)
        return mine is None or self.time() >= mine.visible

    def _find(self, batch_id: str) -> Batch:
        if not self._seen(batch_id):
            raise ApiProblem(404, "not_found_error", f"Message Batch {batch_id} not found.")
        return self.world.find(self.access, batch_id)

    def _retrieve(self, request: Request, trick: str | None, left: float) -> Answer:
        if trick in SIMPLE:
            return SIMPLE[trick]()
        data = self._public(self._find(request.batch_id))
        if trick == "stale_get" and data["processing_status"] == "ended":
            data |= {"processing_status": "in_progress", "ended_at": None, "results_url": None}
        ended = data["processing_status"] == "ended"
        return Answer(data=data, retry_after=None if ended else 10.0)

    def _list(self, request: Request, trick: str | None, left: float) -> Answer:
        if trick in SIMPLE:
            return SIMPLE[trick]()
        limit = request.limit
        if self.faults.has("small_pages"):
            self.faults.strike("small_pages")
            limit = min(limit, 2)
        query = {"limit": str(limit)} | ({"after_id": request.after_id} if request.after_id else {})
        page = self.world.list(self.access, query, "https://api.sim")
        page["data"] = [one for one in page["data"] if self._listed(one, trick)]
        return Answer(data=page)

    def _listed(self, batch: dict[str, Any], trick: str | None) -> bool:
        mine = self.created.get(batch["id"])
        if mine is None:
            return True
        young = trick == "list_misses_newest" and self.time() < mine.at + _HIDDEN[1]
        return self.time() >= mine.visible and not young

    def _cancel(self, request: Request, trick: str | None, left: float) -> Answer:
        if trick == "cancel_500":
            return SIMPLE["get_500"]()
        batch = self._find(request.batch_id)
        self.world.cancel(self.access, batch.id)
        self.canceled_by.setdefault(batch.id, "us")
        return lost() if trick == "cancel_lost" else Answer(data=self._public(batch))

    def _models(self, request: Request, trick: str | None, left: float) -> Answer:
        return Answer(data={"data": [], "has_more": False})

    def _message(self, request: Request, trick: str | None, left: float) -> Answer:
        before = DIRECT_BEFORE.get(trick or "")
        if before is not None:
            return before()
        data = self.world.answer(self.access, orjson.loads(request.body))
        self.asked.append((left, self.time(), data["content"][0]["text"]))
        after = DIRECT_AFTER.get(trick or "")
        return Answer(data=data) if after is None else after()

    def _results(self, request: Request, trick: str | None, left: float) -> Answer:
        batch = self._find(request.batch_id)
        if trick in {"results_500", "results_404"}:
            return SIMPLE[trick.replace("results", "get")]()
        lines = list(self.world.results(self.access, batch.id))
        chance = self.faults.stream("results more")
        keep = chance.randrange(len(lines))
        pieces, broken = lines, False
        if trick == "cut_results":
            pieces, broken = lines[:keep], True
        elif trick == "cut_mid_line":
            torn = lines[keep][: chance.randrange(len(lines[keep]))]
            pieces, broken = [*lines[:keep], torn], True
        elif trick == "results_doubled":
            pieces = [*lines, lines[keep]]
        elif trick == "results_unknown_id":
            pieces = [*lines[:keep], stranger(lines[keep]), *lines[keep:]]
        elif trick == "results_short":
            pieces = lines[:keep] + lines[keep + 1 :]
        elif trick == "results_empty":
            pieces = []
        whole = frozenset(orjson.loads(p)["custom_id"] for p in pieces if p.endswith(b"\n"))
        # A body without a line is none: each request of an ended batch has one.
        seen = Served(self.time(), whole, not broken and bool(whole))
        self.served.setdefault(batch.id, []).append(seen)
        return Answer(pieces=chunked(pieces, chance), broken=broken)

    # -- the books ----------------------------------------------------------------------------

    def books(self, after: float = 0.0) -> Books:
        """Return the books as they will stand *after* seconds from now."""
        self.arrive()
        self.clock.instead = self.time() + after
        try:
            return self.world.books()
        finally:
            self.clock.instead = None

    def ended_at(self, batch_id: str) -> float:
        """Return the virtual time at which a batch ends, as far as is known."""
        return self.world.batches[batch_id].ended_at() - EPOCH

    def expires_at(self, batch_id: str) -> float:
        """Return the virtual time at which a batch expires."""
        return self.world.batches[batch_id].expires_at - EPOCH


def _access_of(org: str) -> Access:
    """Return how the server knows an org: each one is a workspace of its own."""
    return Access(key=org, workspace=org, version="2023-06-01")
