"""
The port through which every durable fact passes.

A `CheckpointStore` keeps runs, their items, the sub-batches they travelled in, and what became of
them. Each method is one atomic promise: when it returns, what it says is durable; when it raises,
nothing of it happened. Every writing method is *fenced*: it takes the `Lease` under which the
caller owns the run and raises `RunLocked` once somebody else has taken the run over.

A third-party store proves itself with `batchwright.testing.check_checkpoint_store`.

How items move::

    begin_intake, stage*, commit_intake            items exist, PENDING
    plan_shard          PENDING   -> IN_FLIGHT     the shard is PLANNED
    move_shard          SENDING                    durable *before* the POST leaves
    move_shard          LIVE                       the batch id is durable before anything else
    settle*             IN_FLIGHT -> final | PENDING
    move_shard          DONE                       all read; `rest` says what became of others
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from enum import IntEnum, StrEnum
from typing import Any, Literal, Protocol, TypeAlias, runtime_checkable

from batchwright._records import record
from batchwright.types import ItemError, Outcome, Spans, Tokens, Via


class ItemState(IntEnum):
    """Where an item stands."""

    #: Waits to be sent (for the first time or again).
    PENDING = 0
    #: Assigned to a shard that is planned, being sent, alive, or ended and not yet read.
    IN_FLIGHT = 1
    #: The model answered and the answer was accepted.
    SUCCEEDED = 2
    #: The item itself is at fault.
    QUARANTINED = 3
    #: The model answered; the caller's `validate` refused the answer.
    REJECTED = 4
    #: No answer, and it waits for the next wave or for a person.
    UNRESOLVED = 5


#: States that no later fact changes, except that a person asks the question anew.
FINAL = frozenset({ItemState.SUCCEEDED, ItemState.QUARANTINED, ItemState.REJECTED})


class ShardState(StrEnum):
    """Where a sub-batch stands."""

    #: Cut; certainly not sent.
    PLANNED = "planned"
    #: The intent to send is durable; whether the server has it is unknown until LIVE.
    SENDING = "sending"
    #: The server has it under `batch_id`.
    LIVE = "live"
    #: The server has finished with it; its results are not all read yet.
    ENDED = "ended"
    #: Nothing more to do.
    DONE = "done"
    #: Its items are held for the reason given; looked at once per wave if it has a batch id.
    HELD = "held"


@dataclass(frozen=True, slots=True, kw_only=True)
class Owner:
    """
    Who owns a run: enough to tell on the same machine whether the process still lives.

    Attributes:
        host: Host name.
        boot: Id of this boot of the machine, and of the space in which its processes are counted;
            empty where the system has none.
        pid: Process id.
        started: Start time of the process as the system gives it (opaque, compared only).
        instance: Unique per runner object.
    """

    host: str
    boot: str
    pid: int
    started: str
    instance: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Lease:
    """
    The right to write to a run. `token` grows with every owner; an older one is refused.

    `worker`: 0 for the owner of the run; for one of several workers on it the worker's number
    (see `batchwright.shared`).
    """

    run_id: str
    token: int
    owner: Owner
    beat_at: datetime
    worker: int = 0


@record
class NewItem:
    """
    One encoded item on its way into the store.

    Attributes:
        position: Place in the caller's input, counted from 0.
        id: The caller's id.
        custom_id: Its id on the wire, unique within the run.
        digest: 16 bytes, the hash of what will be sent; empty for an item refused at intake.
        body: The encoded `params`, exactly as they will be sent; empty for a refused item.
        headers: Canonical JSON of the headers it needs, `""` for none: items of one shard agree.
        metadata: JSON bytes of the caller's metadata, or `None`.
        refusal: Why it will not be sent; the item starts QUARANTINED with it.
        reason: The outcome's reason where *refusal* is set.
        model: `params["model"]`, for counts per model; empty for a refused item without one.
    """

    position: int
    id: str
    custom_id: str
    digest: bytes
    body: bytes
    headers: str = ""
    metadata: bytes | None = None
    refusal: ItemError | None = None
    reason: str | None = None
    model: str = ""


OnChanged: TypeAlias = Literal["error", "rerun", "keep"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Clash:
    """
    An item that may not enter: `duplicate` within this intake, or `changed` since.

    `first_position`: where in this intake a duplicate was seen first; the `seq` of a changed item.
    """

    kind: Literal["duplicate", "changed"]
    id: str
    position: int
    first_position: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Staged:
    """What one chunk of the intake was: rows new to the run, rows known, and clashes."""

    new: int
    known: int
    clashes: tuple[Clash, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Group:
    """
    Items that wait and may travel together.

    Attributes:
        headers: The headers they share (canonical JSON, `""` for none).
        fresh: How many were never tried.
        again: How many wait to be tried again.
    """

    headers: str
    fresh: int
    again: int


@record
class Pending:
    """One waiting item, as the packing sees it. `size`: bytes of its entry on the wire."""

    seq: int
    size: int


@dataclass(frozen=True, slots=True, kw_only=True)
class ShardPlan:
    """
    A shard to be created: the positions (`seq`) of its items, its size, who is to send it.

    `facts`: what the new shard's `facts` hold from the beginning.
    """

    spans: Spans
    count: int
    size: int
    headers: str
    org: str
    wave: int
    planned_at: datetime
    facts: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class Shard:
    """
    A sub-batch as stored.

    Attributes:
        number: Counted from 1 within the run.
        spans: Positions of the items that were sent in it, for ever.
        count: Number of its items.
        size: Bytes of the request body.
        headers: Headers of the create (canonical JSON).
        org: Label of the org that sends or sent it: only its credential may poll, cancel or read.
        wave: The wave that planned it.
        state: See `ShardState`.
        reason: Why it is held, or why it was given up.
        batch_id: The server's id, once known.
        cancel: Who asked the server to cancel it: `user`, `overdue`, `drain`, or empty.
        planned_at: When it was cut.
        sent_at: When the POST was about to leave (server-corrected).
        created_at: The server's.
        expires_at: The server's.
        ended_at: The server's.
        done_at: When everything of it was read.
        polls: How often it was looked at.
        counts: The server's final `request_counts`.
        facts: Further JSON, for the report.
    """

    number: int
    spans: Spans
    count: int
    size: int
    headers: str
    org: str
    wave: int
    state: ShardState
    reason: str | None = None
    batch_id: str | None = None
    cancel: str = ""
    planned_at: datetime
    sent_at: datetime | None = None
    created_at: datetime | None = None
    expires_at: datetime | None = None
    ended_at: datetime | None = None
    done_at: datetime | None = None
    polls: int = 0
    counts: Mapping[str, int] | None = None
    facts: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class Rest:
    """
    What becomes of a shard's items that are still in flight in it when the shard moves.

    Attributes:
        state: PENDING (send again) or UNRESOLVED.
        reason: The reason, where UNRESOLVED; `None` takes the shard's.
        error: The error to keep with each of them.
        charge: How many attempts this costs each of them: 0 or 1.
    """

    state: Literal[ItemState.PENDING, ItemState.UNRESOLVED]
    reason: str | None = None
    error: ItemError | None = None
    charge: int = 0


@record
class Member:
    """
    One item that was sent in a shard.

    `used`: attempts since the budget was last reset. `metadata`: the caller's, parsed.
    """

    seq: int
    id: str
    custom_id: str
    state: ItemState
    attempts: int
    used: int
    shard: int | None
    metadata: Any = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Found:
    """An answer that another run holds to the question of a waiting item; `raw` as in `Outcome`."""

    member: Member
    raw: bytes


@record
class Body:
    """One item's bytes for the upload."""

    seq: int
    custom_id: str
    body: bytes


@record
class Settlement:
    """
    What one result line (or one direct answer) says of one item.

    Attributes:
        seq: The item.
        state: SUCCEEDED, QUARANTINED, REJECTED, UNRESOLVED, or PENDING (try again).
        reason: Where the state is not SUCCEEDED.
        error: The API's error.
        charge: Attempts this costs: 0 or 1.
        via: The path.
        org: Label of the org.
        batch_id: The batch, or `None` on the sync path.
        raw: Bytes of the API's result object, where the model answered or erred.
        tokens: What the answer used; counted once, when the settlement is applied.
        model: The model that answered, for counts per model.
        flag: `truncated`, `refused` or empty: answers that succeeded and need a look.
    """

    seq: int
    state: ItemState
    reason: str | None = None
    error: ItemError | None = None
    charge: int = 1
    via: Via = "batch"
    org: str | None = None
    batch_id: str | None = None
    raw: bytes | None = None
    tokens: Tokens | None = None
    model: str = ""
    flag: str = ""


#: What `settle` did with one settlement. `applied`: it is now the item's fact. `again`: the same
#: answer was stored before (a repeated download). `late`: another answer came first; this one is
#: waste. `stale`: it speaks of a try that is no longer the item's, and changes nothing.
Settled: TypeAlias = Literal["applied", "again", "late", "stale"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Spent:
    """Tokens of the answers that came through one path from one model."""

    via: Via
    model: str
    answers: int
    tokens: Tokens


@dataclass(frozen=True, slots=True, kw_only=True)
class PutBack:
    """
    How often items were put back to wait, for one reason.

    Attributes:
        reason: Why; `""` where an item was only given back, such as for the other path.
        after: Tries it had used of its budget by then.
        items: How often.
    """

    reason: str
    after: int
    items: int


@dataclass(frozen=True, slots=True, kw_only=True)
class RunInfo:
    """
    What stands about a run.

    Attributes:
        run_id: Its name.
        created_at: When it was first opened.
        intake_complete: Whether its items were ever read to the end.
        items: Number of its items.
        states: Items by state.
        reasons: Items that are not SUCCEEDED by reason.
        truncated: Succeeded answers that were cut off.
        refused: Succeeded answers in which the model declined.
        wave: Number of the latest wave.
        spent: Tokens by path and model.
        waste: Tokens of late answers by path and model.
        models: Items by the model they ask for, where they name one.
        put_back: How often a settlement, or a new wave, made items PENDING again.
        facts: What `put_facts` stored.
    """

    run_id: str
    created_at: datetime
    intake_complete: bool
    items: int
    states: Mapping[ItemState, int]
    reasons: Mapping[str, int] = field(default_factory=dict)
    truncated: int = 0
    refused: int = 0
    wave: int = 0
    spent: Sequence[Spent] = ()
    waste: Sequence[Spent] = ()
    models: Mapping[str, int] = field(default_factory=dict)
    put_back: Sequence[PutBack] = ()
    facts: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class Row:
    """
    One item read back: its place, its state, and its outcome as it would be told now.

    For an item that is not final `outcome.status` is `unresolved`; its reason is the item's own,
    else its shard's, else `None` (it simply waits or travels).

    `position` is the place in the intake that was asked for, else `seq`: the place by first
    appearance in the run.
    """

    seq: int
    position: int
    state: ItemState
    outcome: Outcome


@runtime_checkable
class CheckpointStore(Protocol):
    """Where runs live. See the module's text for how items move through it."""

    # -- life ---------------------------------------------------------------------------------

    async def open(self) -> None:
        """
        Make the store ready; create what is missing. Opening twice is harmless.

        Raises:
            SchemaTooNew: It was written by a newer version.
            StoreCorrupt: It is not a batchwright store.
            StoreError: It cannot be created or written.
        """

    async def close(self) -> None:
        """Let go of everything; harmless when not open. A closed store can be opened again."""

    # -- ownership ----------------------------------------------------------------------------

    async def read_lease(self, run_id: str) -> Lease | None:
        """Return who owns the run, or `None` where nobody does."""

    async def acquire(
        self, run_id: str, owner: Owner, now: datetime, *, replacing: int | None
    ) -> Lease:
        """
        Become the owner; create the run if it is new.

        *replacing* is the token of the lease just read, `None` where there was none; it does not
        matter where nobody owns the run any more. The new token is higher than any before it.

        Raises:
            RunLocked: Somebody else acquired or renewed in between.
        """

    async def renew(self, lease: Lease, now: datetime) -> Lease:
        """
        Beat the heart: set `beat_at` to *now*.

        The token grows, so that whoever read the lease before cannot replace it; leases that this
        owner got earlier stay good for writing.

        Raises:
            RunLocked: The lease was taken over or released.
        """

    async def release(self, lease: Lease) -> None:
        """Give the run up; harmless when it is no longer ours."""

    # -- intake -------------------------------------------------------------------------------

    async def begin_intake(self, lease: Lease) -> int:
        """
        Start reading items; return the number of this intake.

        What an intake that never committed left behind is forgotten. Items already committed
        stay as they are.
        """

    async def stage(
        self, lease: Lease, intake: int, rows: Sequence[NewItem], on_changed: OnChanged
    ) -> Staged:
        """
        Take one chunk of items. Nothing of it can be sent before `commit_intake`.

        An id seen earlier in the same intake is a `duplicate` clash. A known id with another
        digest is a `changed` clash under `"error"`, counts as known under `"keep"`, and under
        `"rerun"` replaces the stored question (its outcome and attempts with it) when the intake
        commits. An item that was refused at intake before is always replaced. Rows that clash
        are not taken; the others of the chunk are.
        """

    async def commit_intake(self, lease: Lease, intake: int) -> RunInfo:
        """Make all staged items of *intake* real, and the fact that the intake is complete."""

    # -- work ---------------------------------------------------------------------------------

    async def start_wave(self, lease: Lease, resubmit: frozenset[str]) -> Sequence[Group]:
        """
        Begin the next wave; return what waits, grouped by headers.

        Items UNRESOLVED as `missing` or `unreadable` become PENDING again. Those UNRESOLVED or
        REJECTED whose reason is in *resubmit* become PENDING with a fresh attempt budget
        (`used` = 0). Both leave their shard and are counted in `put_back`, with what they have used
        since. Everything else stays.
        """

    async def plan_shard(self, lease: Lease, plan: ShardPlan) -> Shard:
        """
        Create a PLANNED shard; its items, all PENDING, become IN_FLIGHT in it.

        Raises:
            NotWaiting: One of the items was not PENDING.
        """

    async def move_shard(
        self,
        lease: Lease,
        number: int,
        *,
        expect: frozenset[ShardState],
        to: ShardState,
        rest: Rest | None = None,
        **facts: Any,
    ) -> Shard:
        """
        Move a shard to another state and set the fields named in *facts*.

        *facts* may name `reason`, `batch_id`, `cancel`, `org`, `sent_at`, `created_at`,
        `expires_at`, `ended_at`, `done_at`, `polls`, `counts`, and `facts` (merged into the
        stored mapping). With *rest*, items still IN_FLIGHT in this shard move along in the same
        transaction; `Rest(PENDING)` also takes them out of the shard.

        Raises:
            StoreError: The shard is in none of the *expect*ed states.
        """

    async def settle(
        self, lease: Lease, number: int | None, settlements: Sequence[Settlement]
    ) -> Sequence[Settled]:
        """
        Record what result lines say; return what became of each, in order.

        An answer (a settlement with `tokens` and a state other than PENDING) is applied unless
        the item is final already; the first durable one wins. Anything else is applied only
        while the item belongs to shard *number* and is not final, so that reading a batch twice
        changes nothing.
        PENDING takes the item out of the shard and is counted in `put_back`. Tokens of whatever is
        applied are added to `spent`, those of late answers to `waste`.

        The same answer is known by its `via` and `batch_id`, on the sync path by its bytes. Where
        it waits for its validator (UNRESOLVED) and is now judged otherwise, that is applied at no
        further charge and its tokens are not counted again.
        """

    async def put_facts(self, lease: Lease, facts: Mapping[str, Any]) -> None:
        """Store JSON values under names, replacing earlier ones of the same name."""

    async def put_wish(self, run_id: str, name: str, value: Any) -> None:
        """
        Leave a JSON value for whoever owns the run, without owning it.

        It appears among the run's facts as `wish/<name>`; the owner clears it by `put_facts`.

        Raises:
            StoreError: There is no such run.
        """

    # -- reading (no lease needed) ------------------------------------------------------------

    async def list_runs(self) -> Sequence[str]:
        """Return the names of all runs, oldest first."""

    async def read_run(self, run_id: str) -> RunInfo | None:
        """Return what stands about a run, or `None` where it does not exist."""

    async def read_shards(self, run_id: str) -> Sequence[Shard]:
        """Return all shards of the run by number."""

    async def read_pending(
        self, run_id: str, headers: str, after: int, limit: int
    ) -> Sequence[Pending]:
        """Return up to *limit* PENDING items of one header group with `seq` above *after*."""

    async def read_members(self, run_id: str, number: int) -> Sequence[Member]:
        """Return every item ever sent in shard *number*, by `seq`."""

    async def read_bodies(
        self, run_id: str, number: int, after: int, max_bytes: int
    ) -> Sequence[Body]:
        """
        Return the next bodies of shard *number* with `seq` above *after*, empty at the end.

        As many as fit into *max_bytes* of body, at least one.
        """

    async def read_rows(
        self,
        run_id: str,
        after: int,
        limit: int,
        *,
        intake: int | None = None,
        reason: str | None = None,
        succeeded: bool = True,
        raw: bool = True,
        max_bytes: int = 16_000_000,
    ) -> Sequence[Row]:
        """
        Return up to *limit* items in input order with `position` above *after*.

        A page ends early once it holds *max_bytes* of answers (it holds at least one row).
        *intake* limits it to the items of that intake, in its order; without it all items come in
        the order of their first appearance. *reason* limits it to unresolved items of that reason.
        Without *succeeded* items that are SUCCEEDED are left out; without *raw* outcomes come
        without their bytes, which are not read then.

        Raises:
            StoreError: *intake* never committed, or is not among the last 8 of the run.
        """

    async def find_answers(
        self,
        run_id: str,
        sources: Sequence[str],
        first: int,
        last: int,
        *,
        max_bytes: int = 16_000_000,
    ) -> Sequence[Found]:
        """
        Return the answers of other runs, *sources*, to questions of this run, by `seq`.

        Asked for are the items with `seq` from *first* to *last* that are PENDING and were never
        tried (`attempts` is 0). Items of one digest are told apart by their occurrence: the nth of
        them in the run, by `seq` and whatever became of the others, is given the answer of the nth
        of them in a source, if that one SUCCEEDED; of several sources, of the one named first.
        Items that are only staged do not count, and a source that does not exist holds nothing.

        The list ends early once it holds *max_bytes* of answers (it holds at least one where there
        is one): ask again from behind its last `seq`.
        """
