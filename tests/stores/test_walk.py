"""
Both stores do the same, whatever happens to them: random walks, compared after each step.
"""

from __future__ import annotations

import random

import pytest

from batchwright.errors import BatchwrightError
from batchwright.store import ItemState, Rest, ShardState
from batchwright.stores import MemoryStore, SQLiteStore
from batchwright.testing._store_desk import (
    LATER,
    NOW,
    OWNER,
    RIVAL,
    answer,
    fault,
    plan_of,
    question,
    raw_answer,
    refused,
)
from batchwright.types import ItemError

HEADERS = ("", '{"anthropic-beta":"x"}')
REASONS = ("missing", "unreadable", "exhausted", "ambiguous", "validator", "rejected", None)
OPEN = (ItemState.PENDING, ItemState.UNRESOLVED)
FLAGS = {"": "end_turn", "truncated": "max_tokens", "refused": "refusal"}


class Walk:
    """Draws steps; each is a call that is made on both stores."""

    def __init__(self, seed, known):
        self.draw = random.Random(seed)
        self.known = known
        self.lease = None
        self.intake = 0
        self.steps = (
            [self.stage] * 3
            + [self.begin, self.commit, self.commit, self.wave, self.wave]
            + [self.plan] * 4
            + [self.move] * 3
            + [self.settle] * 8
            + [self.facts, self.renew, self.own]
        )

    def next(self):
        """Return a call: a method's name, its arguments, and what to keep of the result."""
        if self.lease is None:
            return self.own()
        return self.draw.choice(self.steps)()

    def own(self):
        replacing = None if self.lease is None else self.lease.token - self.draw.choice([0, 0, 1])
        owner = self.draw.choice([OWNER, RIVAL])
        return "acquire", ("run", owner, NOW), {"replacing": replacing}, "lease"

    def renew(self):
        return "renew", (self.lease, LATER), {}, "lease"

    def facts(self):
        facts = {self.draw.choice("abc"): self.draw.randrange(9)}
        return "put_facts", (self.lease, facts), {}, None

    def begin(self):
        return "begin_intake", (self.lease,), {}, "intake"

    def stage(self):
        rows = []
        start = self.draw.randrange(1_000_000)
        for position in range(start, start + self.draw.randrange(8)):
            name = f"id-{self.draw.randrange(25)}"
            if self.draw.random() < 0.15:
                rows.append(refused(position, name, self.draw.choice("xy")))
                continue
            text = self.draw.choice("AAAAB")
            headers = self.draw.choice(HEADERS)
            meta = self.draw.choice([None, b'{"a":1}'])
            rows.append(question(position, name, text, headers=headers, metadata=meta))
        mode = self.draw.choice(["error", "rerun", "keep"])
        return "stage", (self.lease, self.intake, rows, mode), {}, None

    def commit(self):
        return "commit_intake", (self.lease, self.intake), {}, None

    def wave(self):
        reasons = self.draw.sample([r for r in REASONS if r], self.draw.randrange(3))
        return "start_wave", (self.lease, frozenset(reasons)), {}, None

    def plan(self):
        waiting = [row.seq for row in self.known.rows if row.state is ItemState.PENDING]
        seqs = sorted(self.draw.sample(waiting, self.draw.randrange(len(waiting) + 1)))
        if self.draw.random() < 0.1:
            seqs = sorted({*seqs, self.draw.randrange(30)})
        return "plan_shard", (self.lease, plan_of(seqs)), {}, None

    def number(self):
        return self.draw.randrange(len(self.known.shards) + 1) or None

    def move(self):
        facts = {
            "reason": self.draw.choice(REASONS),
            "batch_id": f"b-{self.draw.randrange(4)}",
            "polls": self.draw.randrange(9),
            "ended_at": LATER,
            "counts": {"succeeded": 1},
            "facts": {self.draw.choice("ab"): self.draw.randrange(3)},
        }
        names = self.draw.sample(sorted(facts), self.draw.randrange(len(facts)))
        kwargs = {name: facts[name] for name in names}
        if self.draw.random() < 0.5:
            error = self.draw.choice([None, ItemError("e", "m")])
            charge = self.draw.randrange(2)
            reason = self.draw.choice(REASONS)
            state = self.draw.choice(OPEN)
            kwargs["rest"] = Rest(state=state, reason=reason, error=error, charge=charge)
        states = list(ShardState)
        kwargs["expect"] = frozenset(self.draw.sample(states, 4))
        kwargs["to"] = self.draw.choice(states)
        return "move_shard", (self.lease, self.number() or 1), kwargs, None

    def settle(self):
        number = self.number()
        said = [self.say(number) for _ in range(self.draw.randrange(6))]
        return "settle", (self.lease, number, said), {}, None

    def say(self, number):
        seq = self.draw.randrange(len(self.known.rows) + (self.draw.random() < 0.02) or 1)
        batch = None if number is None else f"b-{self.draw.choice([number, number, 0])}"
        other = {
            "via": "sync" if batch is None else "batch",
            "charge": self.draw.randrange(2),
            "reason": self.draw.choice(REASONS),
        }
        if self.draw.random() < 0.5:
            state = self.draw.choice(list(ItemState)[:1] + list(ItemState)[2:])
            return fault(seq, state, batch, **other)
        flag = self.draw.choice(list(FLAGS))
        raw = raw_answer(self.draw.choice("ab"), FLAGS[flag])
        states = [ItemState.SUCCEEDED] * 3 + [ItemState.REJECTED, *OPEN]
        state = self.draw.choice(states)
        return answer(seq, batch, raw=raw, flag=flag, state=state, **other)


class Known:
    """Everything that can be read of a store."""

    def __init__(self):
        self.rows = []
        self.shards = []
        self.rest = None

    @classmethod
    async def read(cls, store, intake):
        known = cls()
        known.info = await store.read_run("run")
        known.rows = list(await store.read_rows("run", -1, 1_000)) if known.info else []
        known.shards = list(await store.read_shards("run"))
        known.rest = [await store.read_lease("run"), list(await store.list_runs())]
        if known.info:
            await known._read_rest(store, intake)
        return known

    async def _read_rest(self, store, intake):
        for headers in HEADERS:
            self.rest.append(list(await store.read_pending("run", headers, -1, 1_000)))
        for reason in filter(None, REASONS):
            self.rest.append(list(await store.read_rows("run", -1, 1_000, reason=reason)))
        for shard in self.shards[-3:]:
            self.rest.append(list(await store.read_members("run", shard.number)))
            self.rest.append(list(await store.read_bodies("run", shard.number, 1, 200)))
        self.rest.append(await outcome_of(store, "read_rows", ("run", 5, 3), {"intake": intake}))

    def __eq__(self, other):
        return vars(self) == vars(other)

    __hash__ = None


async def outcome_of(store, name, args, kwargs):
    """Return what a call returns, or the class and text of what it raises."""
    try:
        result = await getattr(store, name)(*args, **kwargs)
    except BatchwrightError as error:
        return type(error), str(error)
    return list(result) if isinstance(result, list | tuple) else result


def recount(known):
    """Check that the counters are those of the rows."""
    states = dict.fromkeys(ItemState, 0)
    for row in known.rows:
        states[row.state] += 1
    assert known.info.states == states
    assert known.info.items == len(known.rows)
    done = [row.outcome for row in known.rows if row.state is ItemState.SUCCEEDED]
    assert known.info.truncated == sum(o.truncated for o in done)
    assert known.info.refused == sum(o.refused for o in done)


@pytest.mark.parametrize("seed", range(40))
async def test_walk(tmp_path, seed):
    """Both stores return the same, raise the same, and hold the same after each of 80 steps."""
    model, store = MemoryStore(), SQLiteStore(tmp_path / "run.db")
    await store.open()
    known = Known()
    walk = Walk(seed, known)
    refusals = 0
    for step in range(80):
        name, args, kwargs, keep = walk.next()
        expected = await outcome_of(model, name, args, kwargs)
        result = await outcome_of(store, name, args, kwargs)
        assert result == expected, (step, name, args, kwargs)
        if isinstance(result, tuple) and isinstance(result[0], type):
            refusals += 1
        elif keep:
            setattr(walk, keep, result)
        if walk.draw.random() < 0.03:
            await store.close()
            store = SQLiteStore(tmp_path / "run.db")
            await store.open()
        known = walk.known = await Known.read(model, walk.intake)
        assert vars(await Known.read(store, walk.intake)) == vars(known), (step, name, args, kwargs)
        if known.info:
            recount(known)
    assert refusals < 50
    await store.close()
