"""
What must hold after every simulated run: pure functions of history, server books and final rows.

Each returns the violations it found, as texts. `unknown` is a verdict of its own: a run in which
the planned crash never came shows nothing.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator
from itertools import pairwise

from tests.simulation.direct import answered_first, direct_payment, one_switch
from tests.simulation.disk import finals, hash_of
from tests.simulation.loop import DAY
from tests.simulation.payment import lost_answers, payment
from tests.simulation.play import POLLING, RETRY, Played

from batchwright.report.validation import validate
from batchwright.simulator import expected_text
from batchwright.store import FINAL, ItemState

#: Reasons that a calm life may leave behind: all wait for a person, none for another run.
HONEST = frozenset(
    {"exhausted", "overdue", "ambiguous", "archived", "not_found", "foreign", "canceled"}
)
#: Longest a life may take after it was told to stop: one create's whole time, and a little.
STOPS_WITHIN = 1_000.0
#: Most looks, cancels and lists of one org at once.
LOOKS_AT_ONCE = 8

#: What makes a shard.
PLANS = frozenset({"store.plan_shard", "store.plan_part"})

Checker = Callable[[Played], Iterator[str]]


def conservation(played: Played) -> Iterator[str]:
    """Each item has one outcome, in input order, and the store, the result and the sums agree."""
    result = played.last
    if result is None:
        return
    wanted = [item.id for item in played.items]
    told = [outcome.id for outcome in result.outcomes]
    if told != wanted:
        yield f"conservation: outcomes of {told}, items were {wanted}"
    if [row.outcome.id for row in played.rows] != wanted:
        yield "conservation: the store's rows are not the items"
    if sum(result.counts.values()) != len(wanted):
        yield f"conservation: the counts {dict(result.counts)} do not sum to {len(wanted)}"
    counted = Counter(outcome.status for outcome in result.outcomes)
    if {k: v for k, v in result.counts.items() if v} != dict(counted):
        yield f"conservation: the counts {dict(result.counts)} are not those of the outcomes"
    for row in played.rows:
        if row.state is ItemState.SUCCEEDED and not row.outcome.raw:
            yield f"conservation: {row.outcome.id} succeeded without an answer"


def no_phantom(played: Played) -> Iterator[str]:
    """Each answer is what the server produced for that very question."""
    books = played.world.server.books(3 * DAY)
    questions = {item.id: item.params for item in played.items}
    for row in played.rows:
        outcome = row.outcome
        if outcome.status != "succeeded":
            continue
        text = expected_text(questions[outcome.id], played.world.server.seed)
        if outcome.text != text:
            yield f"phantom: {outcome.id} has the answer {outcome.text!r}, not {text!r}"
        if outcome.via == "sync":
            if not books.direct.get(text):
                yield f"phantom: {outcome.id} claims a direct answer that was never given"
        elif outcome.batch_id not in books.billed.get(outcome.custom_id, ()):
            yield f"phantom: {outcome.id} claims batch {outcome.batch_id}, which gave no answer"


def durability(played: Played) -> Iterator[str]:
    """What was once final stays final, with the same bytes, over all crashes."""
    kept: dict[int, tuple[str, str | None]] = {}
    for op in played.world.history.named("store.settle"):
        for seq, state, raw in finals(op) if "stored" in op.facts else ():
            if kept.setdefault(seq, (state, raw)) != (state, raw):
                yield f"durability: item {seq} was {kept[seq]} and became {(state, raw)}"
    rows = {row.seq: row for row in played.rows}
    for seq, (state, raw) in kept.items():
        row = rows.get(seq)
        if row is None or row.state not in FINAL or row.state.name != state:
            yield f"durability: item {seq} was {state} and is {row and row.state.name}"
        elif hash_of(row.outcome.raw) != raw:
            yield f"durability: the bytes of item {seq} have changed"


def liveness(played: Played) -> Iterator[str]:
    """When faults stop, the run comes to an end; what is left is told once and honestly."""
    for ending in played.endings:
        if ending.how in {"deadlock", "endless"}:
            yield f"liveness: life {ending.life} is {ending.how}: {ending.error}"
        if ending.how == "odd":
            yield f"liveness: life {ending.life} raised {ending.error!r}"
    calm = [e for e in played.endings if e.calm]
    if not calm or played.last is None:
        if not any(e.how in {"deadlock", "endless", "odd"} for e in played.endings):
            yield f"liveness: no calm life returned: {[(e.how, e.error) for e in calm]}"
        return
    if calm[-1].how != "returned":
        yield f"liveness: the last calm life ended {calm[-1].how}: {calm[-1].error!r}"
    for row in played.rows:
        if row.state in {ItemState.PENDING, ItemState.IN_FLIGHT}:
            yield f"liveness: {row.outcome.id} is still {row.state.name}"
        elif row.state is ItemState.UNRESOLVED and row.outcome.reason not in HONEST:
            yield f"liveness: {row.outcome.id} is left as {row.outcome.reason}"


def honesty(played: Played) -> Iterator[str]:
    """An item is held as ambiguous only where some create of it really had no known end."""
    unknown: set[str] = set()
    for op in played.world.history.named("api.create"):
        if op.how in {"info", "open"} or op.life in _broken_off(played):
            unknown.update(op.facts["ids"])
    crashed = any(e.how != "returned" for e in played.endings) or bool(played.world.struck)
    for row in played.rows:
        outcome = row.outcome
        if outcome.reason == "ambiguous" and outcome.custom_id not in unknown and not crashed:
            yield f"honesty: {outcome.id} is ambiguous though no create of it was unknown"


def _broken_off(played: Played) -> set[int]:
    return {ending.life for ending in played.endings if ending.how != "returned"}


def order(played: Played) -> Iterator[str]:
    """The intent is durable before the POST, the batch id before anything else about it."""
    members: dict[int, tuple[tuple[int, int], ...]] = {}
    state: dict[int, str] = {}
    recorded: set[str] = set()
    answered: dict[str, tuple[int, int]] = {}
    places = {row.outcome.custom_id: row.seq for row in played.rows}
    for op in played.world.history.ops:
        if op.name in PLANS and "stored" in op.facts:
            number, spans = op.facts["stored"]
            members[number], state[number] = spans, "planned"
        elif op.name == "store.move_shard" and "stored" in op.facts:
            state[op.facts["number"]] = op.facts["to"]
            recorded.add(op.facts["batch_id"])
        elif op.name == "api.create":
            seqs = sorted(places[name] for name in op.facts["ids"] if name in places)
            intended = [n for n, spans in members.items() if _flat(spans) == seqs]
            if not any(state.get(number) == "sending" for number in intended):
                yield f"order: a create of items {seqs} left without a durable intent"
            if op.how == "ok" and op.result is not None:
                answered[op.result[0]] = (op.life, op.after)
        elif op.name in {"api.retrieve", "api.results", "api.cancel"}:
            batch = op.facts["batch"]
            life, since = answered.get(batch, (0, 0))
            # A shard in doubt may look whose results those of an unknown batch are.
            doubts = sum(where in {"sending", "held"} for where in state.values())
            if op.name == "api.results" and doubts > 1:
                continue
            if life == op.life and op.number > since and batch not in recorded:
                yield f"order: {op.name} of {batch} came before its id was durable"


def _flat(spans: tuple[tuple[int, int], ...]) -> list[int]:
    return [seq for first, last in spans for seq in range(first, last + 1)]


def closing(played: Played) -> Iterator[str]:
    """A shard is closed only when none of its items is still on its way in it."""
    places: dict[int, int] = {}
    for op in played.world.history.ops:
        if "stored" not in op.facts:
            continue
        if op.name in PLANS:
            number, spans = op.facts["stored"]
            places.update(dict.fromkeys(_flat(spans), number))
        elif op.name == "store.settle":
            for seq, _, _, what, _, _ in op.facts["stored"] or ():
                if what == "applied":
                    places.pop(seq, None)
        elif op.name == "store.move_shard" and op.facts["to"] in {"done", "held"}:
            number = op.facts["number"]
            left = sorted(seq for seq, where in places.items() if where == number)
            if left and op.facts["rest"] is None and op.facts["to"] == "done":
                yield f"order: shard {number} was closed with items {left} in flight"
            if op.facts["rest"] is not None:
                for seq in left:
                    del places[seq]


def deadline(played: Played) -> Iterator[str]:
    """Every life ends in time; no batch is given up before its own, or looked at for ever."""
    bound = (RETRY.max_attempts + 1) * (DAY + POLLING.grace + 3_600.0)
    for ending in played.endings:
        if ending.ended - ending.began > bound:
            yield f"deadline: life {ending.life} took {(ending.ended - ending.began) / DAY:.1f} d"
    server = played.world.server
    for op in played.world.history.named("api.cancel"):
        early = server.expires_at(op.facts["batch"]) + POLLING.grace - op.began
        if early > 2.0 and not played.scenario.switch:
            yield f"deadline: {op.facts['batch']} was canceled {early:.0f} s before its time"
    known: dict[str, float] = {}
    for op in played.world.history.named("store.move_shard"):
        if "stored" in op.facts and op.facts["batch_id"]:
            known.setdefault(op.facts["batch_id"], op.began)
    allowed = 3 * 3_600.0 + 28_800.0 * _slept(played)
    for op in played.world.history.named("api.retrieve"):
        batch = op.facts["batch"]
        if batch not in server.created:
            continue
        life = min((e.began for e in played.endings if e.life == op.life), default=op.began)
        since = max(server.expires_at(batch) + POLLING.grace, life, known.get(batch, 0.0))
        if op.began - since > allowed:
            yield f"deadline: {batch} is looked at {op.began - since:.0f} s after its time"


def stops(played: Played) -> Iterator[str]:
    """A life that is told to stop stops soon, and does not swallow it."""
    for life in played.world.lives:
        if life.told_to_stop is None:
            continue
        ending = next((e for e in played.endings if e.life == life.number), None)
        if ending is None or ending.how in {"killed", "store", "locked"}:
            continue
        took = ending.ended - life.told_to_stop
        if took > STOPS_WITHIN + sum(20.0 for _ in life.paused_at) + 28_800.0 * _slept(played):
            yield f"stop: life {life.number} went on for {took:.0f} s after it was told to stop"
        if ending.how == "returned" and took > 0 and not _was_over(played, life.number):
            yield f"stop: life {life.number} was told to stop and returned a result"


def _slept(played: Played) -> int:
    return played.world.faults.fired["laptop_sleep"]


def _was_over(played: Played, life: int) -> bool:
    """Tell whether the cancel fell into the very end, where nothing more was awaited."""
    ops = [op for op in played.world.history.ops if op.life == life]
    told = played.world.lives[life - 1].told_to_stop or 0.0
    return not any(op.began > told for op in ops if op.name.startswith("api."))


def bounds(played: Played) -> Iterator[str]:
    """Calls at once and looks per minute never exceed what is promised."""
    seed = played.scenario.seed
    most = {"api.create": 2 + seed % 3, "api.retrieve": LOOKS_AT_ONCE, "api.list": LOOKS_AT_ONCE}
    for name, limit in most.items():
        peak = _peak(played, name)
        # Looks are bounded for each org, uploads for the run.
        allowed = limit * (1 if name == "api.create" else played.scenario.orgs)
        if peak > allowed:
            yield f"bounds: {peak} calls of {name} at once, {allowed} allowed"
    looks: dict[tuple[int, str], list[float]] = {}
    for op in played.world.history.named("api.retrieve"):
        if op.how == "ok":
            looks.setdefault((op.life, op.facts["batch"]), []).append(op.began)
    for (life, batch), moments in looks.items():
        # Some looks fall on a deadline or follow an adoption; they are few.
        fair = 6 + (moments[-1] - moments[0]) / 10.0
        if len(moments) > fair:
            yield f"bounds: life {life} looks at {batch} {len(moments)} times, {fair:.0f} are fair"


def _peak(played: Played, name: str) -> int:
    moments = []
    for op in played.world.history.named(name):
        moments += [(op.began, 1, op.life), (op.ended or op.began, -1, op.life)]
    peak = 0
    open_calls: Counter[int] = Counter()
    for _, change, life in sorted(moments, key=lambda m: (m[0], m[1])):
        open_calls[life] += change
        peak = max(peak, open_calls[life])
    return peak


def hygiene(played: Played) -> Iterator[str]:
    """Nothing is left running, no exception goes unread, and none is unforeseen."""
    for note in played.world.history.notes:
        if "ShardFailed" in note.text:
            yield f"hygiene: {note.text}"
    for ending in played.endings:
        if ending.leftovers and ending.how != "killed":
            yield f"hygiene: life {ending.life} left tasks behind: {ending.leftovers}"
        for complaint in ending.complaints:
            if "Killed" not in complaint:
                yield f"hygiene: life {ending.life}: {complaint}"


def owner(played: Played) -> Iterator[str]:
    """Once somebody has taken a run over, its former owner writes nothing and sends nothing."""
    if played.scenario.workers:
        return
    tokens: list[tuple[int, int]] = []
    holder = 0
    for op in played.world.history.ops:
        # A probe of the rate limits asks for one token and has no item.
        sends = op.name in {"api.create", "api.message"} and op.facts.get("text") != "."
        if sends and op.life != holder:
            yield f"owner: {op.name} of life {op.life} left while life {holder} owns the run"
        if "stored" not in op.facts:
            continue
        if op.name == "store.acquire":
            holder = op.life
            tokens.append((op.life, op.facts["stored"]))
        elif op.name != "store.release" and op.life != holder:
            yield f"owner: {op.name} of life {op.life} was stored while life {holder} owns the run"
    if any(late[1] <= early[1] for early, late in pairwise(tokens)):
        yield f"owner: the tokens do not grow: {tokens}"


def by_owner(played: Played) -> Iterator[str]:
    """A batch is polled, canceled and read by the org that made it, and by no other."""
    created = played.world.server.created
    for name in ("api.retrieve", "api.cancel", "api.results"):
        for op in played.world.history.named(name):
            made = created.get(op.facts["batch"])
            asking = op.facts.get("org", "sim")
            if made is not None and made.org != asking:
                yield f"owner: {name} of {made.batch_id} by {asking}, it belongs to {made.org}"


def quiet_at_the_end(played: Played) -> Iterator[str]:
    """A call on a finished run sends nothing."""
    returned = [e for e in played.endings if e.how == "returned"]
    if len(returned) < 2 or returned[-2].result is None or not returned[-2].result.complete:
        return
    # Of several processes at work together one may have been done before the other.
    sent = [
        op
        for op in played.world.history.named("api.create")
        if op.life == returned[-1].life and op.began >= returned[-2].ended
    ]
    if sent:
        yield f"liveness: {len(sent)} creates after the run was complete"


def report(played: Played) -> Iterator[str]:
    """What is told of a run keeps every rule of its contract, wherever a crash left the run."""
    results = [e.result.report for e in played.endings if e.result is not None]
    for told in (*played.reports, *results):
        for finding in validate(told.model_dump_json().encode()):
            yield f"report: {finding}"


CHECKERS: tuple[Checker, ...] = (
    conservation,
    no_phantom,
    payment,
    lost_answers,
    durability,
    liveness,
    honesty,
    order,
    closing,
    deadline,
    stops,
    bounds,
    hygiene,
    owner,
    by_owner,
    quiet_at_the_end,
    direct_payment,
    one_switch,
    answered_first,
    report,
)


def violations(played: Played) -> list[str]:
    """Return all that is wrong with one run."""
    return [text for checker in CHECKERS for text in checker(played)]


def is_vacuous(played: Played) -> bool:
    """Tell whether a planned crash never came, so that the run shows nothing."""
    return len(played.world.struck) < len(played.scenario.crash)
