"""Stores that earlier versions left behind, stopped in each state, are resumed for ever after."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest
from tests.golden.make import COUNT, ITEMS, RULES, RUN, SCHEMA, STATES
from tests.postgres.server import fresh_schema
from tests.support import runner_on

from batchwright import Item, _lease
from batchwright._intake import encode_item
from batchwright.simulator import Respond
from batchwright.store import ShardState
from batchwright.testing import simulate

FILES = sorted(Path(__file__).parent.glob("schema-*/*"))


def ended(request_id: str = "msgbatch_01golden") -> dict[str, object]:
    """Return the batch as the server would tell it now."""
    return {
        "id": request_id,
        "type": "message_batch",
        "processing_status": "ended",
        "request_counts": {
            "processing": 0,
            "succeeded": COUNT,
            "errored": 0,
            "canceled": 0,
            "expired": 0,
        },
        "ended_at": "2026-11-29T13:00:00Z",
        "created_at": "2026-11-29T12:00:00Z",
        "expires_at": "2026-11-30T12:00:00Z",
        "archived_at": None,
        "cancel_initiated_at": None,
        "results_url": "x",
    }


def line(custom_id: str) -> dict[str, object]:
    message = {"content": [{"type": "text", "text": "golden"}], "stop_reason": "end_turn"}
    return {"custom_id": custom_id, "result": {"type": "succeeded", "message": message}}


@pytest.fixture(params=FILES, ids=lambda path: f"{path.parent.name}/{path.name}")
def path(request):
    """One of the files."""
    return request.param


@pytest.fixture
def store(request, path, tmp_path):
    """A copy of the store in the file."""
    if path.suffix == ".db":
        return shutil.copy(path, tmp_path / "run.db")
    server, schema = request.getfixturevalue("postgres"), fresh_schema()
    with server.connect() as conn:
        conn.execute(path.read_text().replace(f"{SCHEMA}", schema))
    conn.close()
    return server.url(schema)


async def test_a_golden_store_is_resumed(store, path, monkeypatch):
    """Whatever state it was stopped in, each item ends with its answer, and none is sent twice."""
    # Its owner was on another machine, and need not be watched for long.
    monkeypatch.setattr(_lease, "WATCH", 0.01)
    ids = [encode_item(Item(*item), 0, RULES).custom_id for item in ITEMS]
    async with simulate() as sim, runner_on(sim, store) as runner:
        sim.on(
            lambda call: call.route == "retrieve" and "golden" in call.batch_id,
            Respond(200, ended()),
        )
        if path.stem == "sending":
            page = {"data": [ended()], "has_more": False, "first_id": "x", "last_id": "x"}
            sim.on("list", Respond(200, page))
        if path.stem not in {"planned", "done"}:
            body = b"".join(json.dumps(line(cid)).encode() + b"\n" for cid in ids)
            sim.on("results", Respond(200, body))
        result = await runner.run(ITEMS, run_id=RUN)

        assert result.complete
        assert len(result.messages) == COUNT
        assert {o.attempts for o in result.outcomes} == {1}
        assert len(sim.creates) == (1 if path.stem == "planned" else 0)
        assert all(b.state == ShardState.DONE for b in result.report.batches)


def test_there_is_a_golden_store_for_every_state():
    """None was forgotten, and none has been lost."""
    wanted = [f"{state}{suffix}" for state in STATES for suffix in (".db", ".sql")]
    assert [path.name for path in FILES] == sorted(wanted)
