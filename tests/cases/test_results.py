"""C20 to C30: what goes wrong while results are read and stored."""

from __future__ import annotations

import asyncio
import json
import tracemalloc

import anthropic
import orjson
import pytest
from tests.runs.test_resume import kill_child_at
from tests.support import (
    FAST,
    Heard,
    assert_conserved,
    assert_own_answers,
    items,
    params,
    runner_on,
    sent,
)

from batchwright import BatchRunner, RetryBudget, ShardLimits
from batchwright._json import load_json
from batchwright.events import Anomaly, BatchEnded, ItemsMerged, ResultsReread, ShardHeld
from batchwright.simulator import (
    All,
    Call,
    ChunkSize,
    CutBody,
    Error,
    Gzip,
    Lines,
    NoContentType,
    Simulator,
    Slow,
    WorldSettings,
    cancel,
    errored,
    expire,
    succeed,
)
from batchwright.testing import simulate

TRIES = RetryBudget(max_attempts=3, backoff=0.01, max_backoff=0.02)


def exported(result, path):
    """Return the lines of the output file, split as a reader of JSON lines must."""
    result.to_jsonl(path)
    return [load_json(line) for line in path.read_bytes().split(b"\n") if line]


# -- C20: results in another order -------------------------------------------------------------


async def test_c20_every_answer_is_its_own_question_s(tmp_path):
    """Lines come in any order, another one in each shard; outcomes are in input order."""
    asked = items(200)
    async with (
        simulate() as sim,
        runner_on(sim, limits=ShardLimits(max_requests=45), retry=TRIES) as runner,
    ):
        for number in range(0, 200, 3):
            sim.fate_for(f"doc-{number}", errored("invalid_request_error", f"no {number}"))
        result = await runner.run(asked)

        ids = [item_id for item_id, _ in asked]
        assert [o.id for o in result.outcomes] == ids
        assert [line["id"] for line in exported(result, tmp_path / "out.jsonl")] == ids
        assert all(o.error.message == f"no {o.id[4:]}" for o in result.quarantined)
        assert len(result.quarantined) == 67
        assert_own_answers(result, [one for one in asked if one[0] in result.messages])


# -- C21: "ended" read as "all fine" -----------------------------------------------------------


async def test_c21_ids_sent_and_ids_received_are_reconciled():
    """Missing, doubled and unknown ids are told and counted; nobody hangs; the sum is right."""
    heard = Heard()

    def spoil(lines: list[bytes]) -> list[bytes]:
        kept = [line for line in lines if not line.startswith((b'{"custom_id":"doc-2-',))]
        kept = [line for line in kept if not line.startswith((b'{"custom_id":"doc-4-',))]
        return [*kept, kept[0], b'{"custom_id":"zzz","result":{"type":"succeeded"}}\n', b"\n"]

    async with simulate() as sim, runner_on(sim, on_event=heard, retry=TRIES) as runner:
        sim.fate_for("doc-3", [errored("api_error"), succeed()])
        rule = sim.on(lambda c: c.route == "results" and c.batch_number <= 2, Lines(spoil))
        result = await runner.run(items(5))

        assert {o.id: o.reason for o in result.unresolved} == {
            "doc-2": "missing",
            "doc-4": "missing",
        }
        assert result.counts["succeeded"] == 3
        assert {event.kind for event in heard.of(Anomaly)} == {"missing", "unknown", "doubled"}
        assert len(heard.of(ResultsReread)) == 1
        assert_conserved(result, 5)
        sim.off(rule)
        assert (await runner.run(items(5))).complete


async def test_c21_a_body_without_a_line_is_no_body():
    """Each request of an ended batch has a line: nothing is sent again for want of all of them."""
    async with simulate() as sim, runner_on(sim) as runner:
        rule = sim.on("results", Lines([]))
        result = await runner.run(items(5))
        again = await runner.run(items(5))
        assert {o.reason for o in result.unresolved} == {"unreadable"}
        assert {o.reason for o in again.unresolved} == {"unreadable"}

        sim.off(rule)
        assert (await runner.run(items(5))).complete
        assert len(sim.creates) == 1


async def test_c21_a_batch_of_errors_is_no_success():
    """It has ended, and nothing of it is an answer."""
    async with simulate() as sim, runner_on(sim) as runner:
        sim.fate_for("*", errored("invalid_request_error", "no"))
        result = await runner.run(items(5))

        assert not result.complete
        assert len(result.quarantined) == 5


# -- C22: where the error really is ------------------------------------------------------------

RETRIED = ("api_error", "overloaded_error", "rate_limit_error", "timeout_error")


@pytest.mark.parametrize("shape", ["nested", "flat", "bare"])
async def test_c22_each_error_by_its_inner_type(shape):
    """Quarantined at once, tried again within the budget, or odd; both shapes are understood."""

    def reshape(lines: list[bytes]) -> list[bytes]:
        return [_reshaped(line, shape) for line in lines]

    fates = ["invalid_request_error", *RETRIED, "error_of_tomorrow"]
    async with simulate() as sim, runner_on(sim, retry=TRIES) as runner:
        for place, kind in enumerate(fates):
            sim.fate_for(f"doc-{place}", errored(kind, f"told by {kind}"))
        sim.fate_for("doc-6", expire())
        sim.fate_for("doc-7", [cancel(), succeed()])
        sim.on("results", Lines(reshape))
        result = await runner.run(items(9))

        found = {o.id: (o.status, o.reason, o.attempts) for o in result.outcomes}
        assert found["doc-8"] == ("succeeded", None, 1)
        assert found["doc-7"] == ("succeeded", None, 2)
        assert found["doc-6"] == ("unresolved", "exhausted", 3)
        if shape == "bare":
            assert result["doc-0"].error.type == "unknown_error"
            assert result["doc-0"].attempts == 3
        else:
            assert found["doc-0"] == ("quarantined", "invalid_request_error", 1)
            assert {found[f"doc-{i}"] for i in range(1, 5)} == {("unresolved", "exhausted", 3)}
            assert found["doc-5"] == ("quarantined", "error_of_tomorrow", 3)
            errors = {o.id: o.error for o in result.outcomes if o.error is not None}
            assert all(errors[f"doc-{i}"].type == kind for i, kind in enumerate(fates))
            assert all(errors[f"doc-{i}"].message == f"told by {k}" for i, k in enumerate(fates))
        texts = [o.error.message for o in result.outcomes if o.error is not None]
        assert not any(text in {"undefined", "error", "None", ""} for text in texts)


def _reshaped(line: bytes, shape: str) -> bytes:
    data = orjson.loads(line)
    if data["result"]["type"] == "errored" and shape != "nested":
        data["result"]["error"] = data["result"]["error"]["error"] if shape == "flat" else None
    return orjson.dumps(data) + b"\n"


# -- C23: an expired or canceled batch still holds paid answers ---------------------------------


async def test_c23_only_what_has_no_answer_is_sent_again():
    """a and c are kept at once; b is tried until its answer; each answer is counted once."""
    async with simulate() as sim, runner_on(sim, retry=TRIES) as runner:
        sim.fate_for("doc-1", [expire(), expire(), succeed()])
        sim.fate_for("doc-3", [cancel(), succeed()])
        result = await runner.run(items(4))

        assert result.complete
        stems = [sorted(cid.rpartition("-")[0] for cid in c.custom_ids) for c in sim.creates]
        assert stems == [["doc-0", "doc-1", "doc-2", "doc-3"], ["doc-1", "doc-3"], ["doc-1"]]
        assert sum(spent.answers for spent in result.report.tokens) == 4
        assert result.report.waste == []


# -- C24: the result stream breaks in the middle -----------------------------------------------


@pytest.mark.parametrize(
    "breaks",
    [
        [CutBody(after_lines=400, reset=True)],
        [CutBody(after_lines=400)],
        [CutBody(after_lines=400, framing="close")],
        [CutBody(after_lines=400, framing="length")],
        [CutBody(after_bytes=0), Error(500), Error(404), CutBody(after_lines=999)],
    ],
    ids=["reset", "chunked", "unnoticed", "declared length", "four in a row"],
)
async def test_c24_a_broken_stream_is_read_again(breaks):
    """Whole lines are kept, a torn one never surfaces, each answer counts once, nothing leaks."""
    asked = items(1_000)
    retry = RetryBudget(backoff=0.01, max_backoff=0.02)
    async with simulate() as sim:
        async with anthropic.AsyncAnthropic(**sim.client_options()) as client:
            runner = BatchRunner(client=client, store="memory://", polling=FAST, retry=retry)
            sim.on("results", breaks)
            async with runner:
                result = await runner.run(asked)
            pool = client._client._transport._pool
            assert all(connection.is_idle() for connection in pool.connections)

        assert result.complete
        assert_own_answers(result, asked)
        assert len(sim.calls("results")) == len(breaks) + 1
        assert sum(spent.answers for spent in result.report.tokens) == 1_000
        assert len(sim.creates) == 1


async def test_c24_a_stream_that_stays_broken_is_bounded_and_read_on_later():
    """The tries are counted; what came is kept; the next call reads on and sends nothing."""
    async with simulate() as sim, runner_on(sim) as runner:
        rule = sim.on("results", CutBody(after_lines=3, reset=True))
        result = await runner.run(items(10))
        assert result.counts["succeeded"] == 3
        assert {o.reason for o in result.unresolved} == {"unreadable"}
        assert len(sim.calls("results")) == RetryBudget().call_attempts
        sim.off(rule)
        assert (await runner.run(items(10))).complete
        assert len(sim.creates) == 1


# -- C25: line breaks that are not line breaks -------------------------------------------------

SEPARATORS = "a\u2028b\u2029c\u0085d\x0be\x0cf\x1cg\x1dh\x1ei\rj\r\nk\nl\ufeffm"


def raw_lines(text: str, *, escape: bool = False):
    """Return an action that gives every answer this text, raw wherever JSON allows it."""

    def change(lines: list[bytes]) -> list[bytes]:
        changed = []
        for line in lines:
            data = orjson.loads(line)
            data["result"]["message"]["content"][0]["text"] = text
            changed.append(json.dumps(data, ensure_ascii=escape).encode() + b"\n")
        return changed

    return Lines(change)


@pytest.mark.parametrize("store", ["memory://", "file"])
async def test_c25_only_0x0a_ends_a_line(tmp_path, store):
    """Every other separator is text, in the answer, in the store and in the output file."""
    where = store if store != "file" else tmp_path / "run.db"
    async with simulate() as sim, runner_on(sim, where) as runner:
        sim.on("results", raw_lines(SEPARATORS))
        result = await runner.run(items(3))

        assert {o.text for o in result.outcomes} == {SEPARATORS}
        lines = exported(result, tmp_path / "out.jsonl")
        assert [line["id"] for line in lines] == ["doc-0", "doc-1", "doc-2"]
        texts = {line["result"]["message"]["content"][0]["text"] for line in lines}
        assert texts == {SEPARATORS}
        again = await runner.run(items(3))
        assert {o.text for o in again.outcomes} == {SEPARATORS}


async def test_c25_windows_line_ends_blank_lines_and_a_last_line_without_end():
    """None of them is an answer, and none of them costs one."""

    def spoil(lines: list[bytes]) -> list[bytes]:
        return [b"\r\n", *(line.rstrip() + b"\r\n\r\n" for line in lines[:-1]), lines[-1].rstrip()]

    heard = Heard()
    async with simulate() as sim, runner_on(sim, on_event=heard) as runner:
        sim.on("results", Lines(spoil))
        result = await runner.run(items(4))

        assert result.complete
        assert heard.of(Anomaly) == []
        assert len(sim.calls("results")) == 1


# -- C26: bytes cut inside a character; no content-type ------------------------------------------

LANGUAGES = "zażółć gęślą jaźń 你好世界 👩‍👩‍👧‍👦 é ﷽"


@pytest.mark.parametrize("size", [1, 3, 7])
@pytest.mark.parametrize(
    "form", [NoContentType(), Gzip(), All(Gzip(), NoContentType())], ids=["none", "gzip", "both"]
)
async def test_c26_the_text_is_the_same_however_it_is_cut(size, form):
    """Chunks of 1, 3 and 7 bytes, with and without content type and compression."""
    async with simulate() as sim, runner_on(sim) as runner:
        sim.on("results", All(raw_lines(LANGUAGES), ChunkSize(size), form))
        result = await runner.run(items(2))

        assert {o.text for o in result.outcomes} == {LANGUAGES}


# -- C27: one very long line -------------------------------------------------------------------


async def test_c27_a_line_of_six_megabytes_between_short_ones():
    """All are delivered, and memory follows the longest line, not the file."""
    big = "x" * 6_000_000

    def grow(lines: list[bytes]) -> list[bytes]:
        return [
            line.replace(b'"text":"', b'"text":"' + big.encode()) if i % 2 else line
            for i, line in enumerate(lines)
        ]

    with Simulator(speed=12_000) as sim:
        async with runner_on(sim) as runner:
            sim.on("results", Lines(grow))
            result = await runner.run(items(3))
            assert sorted(len(o.text) > 6_000_000 for o in result.outcomes) == [False, False, True]


async def test_c27_memory_follows_the_longest_line(tmp_path):
    """Forty lines of 2 MB: what is held while they are read is a few of them."""
    big = b'"text":"' + b"x" * 2_000_000

    async def peak() -> int:
        async with runner_on(sim, tmp_path / "run.db") as runner:
            tracemalloc.start()
            try:
                await runner.run(items(40), collect=False)
                return tracemalloc.get_traced_memory()[1]
            finally:
                tracemalloc.stop()

    def grow(lines: list[bytes]) -> list[bytes]:
        return [line.replace(b'"text":"', big) for line in lines]

    async with simulate() as sim:
        # The simulator holds them all (80 MB); what is above that is ours.
        sim.on("results", Lines(grow))
        assert await peak() < 80_000_000 + 45_000_000


# -- C28: succeeded, but not usable ------------------------------------------------------------


def message_of(stop: str, content: object) -> dict[str, object]:
    """Return the fields of a message that a case is about."""
    return {"stop_reason": stop, "content": content}


UNUSABLE = {
    "doc-0": message_of("max_tokens", [{"type": "text", "text": "half a sen"}]),
    "doc-1": message_of("refusal", []),
    "doc-2": message_of("pause_turn", [{"type": "text", "text": "wait"}]),
    "doc-3": message_of("model_context_window_exceeded", [{"type": "text", "text": "cut"}]),
    "doc-4": message_of("tool_use", [{"type": "tool_use", "id": "t", "name": "f", "input": {}}]),
    "doc-5": message_of(
        "end_turn",
        [
            {"type": "thinking", "thinking": "hm", "signature": "s"},
            {"type": "text", "text": "one, "},
            {"type": "text", "text": "two"},
        ],
    ),
    "doc-6": message_of("end_turn", []),
    "doc-7": message_of("end_turn", None),
    "doc-8": message_of("reason_of_tomorrow", [{"type": "block_of_tomorrow"}, 7]),
}


async def test_c28_succeeded_is_not_complete():
    """Kept raw, flagged, never sent again by itself; the text joins all blocks and never raises."""

    def change(lines: list[bytes]) -> list[bytes]:
        changed = []
        for line in lines:
            data = orjson.loads(line)
            data["result"]["message"].update(UNUSABLE[data["custom_id"].rpartition("-")[0]])
            changed.append(orjson.dumps(data) + b"\n")
        return changed

    async with simulate() as sim, runner_on(sim) as runner:
        sim.on("results", Lines(change))
        result = await runner.run(items(9))

        assert result.complete
        assert len(sim.creates) == 1
        assert [o.id for o in result.outcomes if o.truncated] == ["doc-0", "doc-2", "doc-3"]
        assert [o.id for o in result.outcomes if o.refused] == ["doc-1"]
        assert result.report.truncated == 3
        assert result.report.refused == 1
        texts = {o.id: o.text for o in result.outcomes}
        assert texts["doc-5"] == "one, two"
        assert texts["doc-0"] == "half a sen"
        assert {texts[f"doc-{i}"] for i in (1, 4, 6, 7, 8)} == {""}
        assert result["doc-4"].stop_reason == "tool_use"
        for o in result.outcomes:
            stop = UNUSABLE[o.id]["stop_reason"]
            assert orjson.loads(o.raw)["message"]["stop_reason"] == o.stop_reason == stop
            assert o.usage.output_tokens >= 0


async def test_c28_a_rule_of_the_caller_s_may_ask_again_but_not_for_ever():
    """With `validate` and `retry_rejected` a cut-off answer is tried again, within the budget."""
    async with (
        simulate() as sim,
        runner_on(
            sim, retry=TRIES, retry_rejected=True, validate=lambda outcome: not outcome.truncated
        ) as runner,
    ):
        sim.fate_for("doc-0", succeed("half", stop_reason="max_tokens"))
        sim.fate_for("doc-1", [succeed("half", stop_reason="max_tokens"), succeed()])
        result = await runner.run(items(3))

        assert [o.id for o in result.rejected] == ["doc-0"]
        assert result["doc-0"].text == "half"
        assert max(sent(sim).values()) == 3
        assert list(result.messages) == ["doc-1", "doc-2"]


async def test_c28_a_success_without_a_message_is_no_answer():
    """What cannot be read as an answer is tried again within the budget, then set apart."""

    def hollow(lines: list[bytes]) -> list[bytes]:
        return [line if b"doc-1" in line else _hollow(line) for line in lines]

    async with simulate() as sim, runner_on(sim, retry=TRIES) as runner:
        sim.on("results", Lines(hollow))
        result = await runner.run(items(2))

        assert list(result.messages) == ["doc-1"]
        assert [o.attempts for o in result.quarantined] == [3]


def _hollow(line: bytes) -> bytes:
    data = orjson.loads(line)
    del data["result"]["message"]
    return orjson.dumps(data) + b"\n"


# -- C29: crash while storing results; clean-up before storing ----------------------------------


async def test_c29_killed_while_storing(tmp_path):
    """2,500 distinct keys, none twice, none missing; one create; nothing is ever deleted."""
    store = tmp_path / "run.db"
    with Simulator(speed=12_000) as sim:
        rule = sim.on("results", Slow(0.01, size=10_000))
        await asyncio.to_thread(
            kill_child_at, sim, store, "ItemsMerged", count=2_500, shard=2_500, nth=1
        )
        sim.off(rule)
        async with runner_on(sim, store) as runner:
            standing = (await runner.status()).progress
            assert 0 < standing.succeeded < 2_500
            result = await runner.run(items(2_500))
            lines = exported(result, tmp_path / "out.jsonl")

        assert len({line["id"] for line in lines}) == len(lines) == 2_500
        assert_own_answers(result, items(2_500))
        assert sum(spent.answers for spent in result.report.tokens) == 2_500
        assert len(sim.creates) == 1
        assert sim.calls("delete") == []


async def test_c29_an_output_file_is_whole_or_not_there(tmp_path, monkeypatch):
    """Writing that fails in the middle leaves the old file as it was, and no half one beside it."""
    out = tmp_path / "out.jsonl"
    async with simulate() as sim, runner_on(sim, tmp_path / "run.db") as runner:
        result = await runner.run(items(10))
        assert result.to_jsonl(out) == 10
        before = out.read_bytes()

        calls = iter(range(100))

        def line_of(outcome):
            if next(calls) == 5:
                raise OSError(28, "No space left on device")
            return b"half\n"

        monkeypatch.setattr("batchwright._export.line_of", line_of)
        with pytest.raises(OSError, match="No space"):
            result.to_jsonl(out)
        assert out.read_bytes() == before
        assert sorted(p.name for p in tmp_path.iterdir() if "out" in p.name) == ["out.jsonl"]


# -- C30: the results are gone -----------------------------------------------------------------


async def interrupted(sim: Simulator, store, count: int = 4) -> None:
    """Leave a run behind whose batches have been created and not read."""
    heard = Heard()
    async with runner_on(sim, store, on_event=heard, limits=ShardLimits(max_requests=2)) as runner:
        rule = sim.on("retrieve", Error(500))
        task = asyncio.create_task(runner.run(items(count)))
        while sum(len(create.custom_ids) for create in sim.creates) < count:
            await asyncio.sleep(0.002)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        sim.off(rule)


@pytest.mark.parametrize("kind", ["archived", "archived with url", "deleted"])
async def test_c30_results_that_are_gone_are_held_and_not_bought_again(tmp_path, kind):
    """The fresh one is read; the old one says what it is; more is sent on a person's word alone."""
    heard = Heard()
    async with simulate(settings=WorldSettings(archived_url=kind != "archived")) as sim:
        await interrupted(sim, tmp_path / "run.db")
        old, fresh = sim.world.batches.values()
        for batch in (old, fresh):
            sim.world.finish(batch.id)
        if kind == "deleted":
            old.deleted = True
        else:
            old.created_at -= 30 * 86_400
        async with runner_on(sim, tmp_path / "run.db", on_event=heard) as runner:
            result = await runner.resume()
            assert result.counts["succeeded"] == 2
            reason = "not_found" if kind == "deleted" else "archived"
            assert {o.reason for o in result.unresolved} == {reason}
            (held,) = heard.of(ShardHeld)
            assert f"--resubmit {reason}" in held.remedy
            assert len(sim.creates) == 2
            assert len(sim.calls("results")) <= 1 + RetryBudget().call_attempts
            again = await runner.resume()
            assert {o.reason for o in again.unresolved} == {reason}
            assert len(sim.creates) == 2
            assert (await runner.resume(resubmit=[reason])).complete


@pytest.mark.parametrize(("kind", "reason"), [("deleted", "not_found"), ("archived", "archived")])
async def test_c30_gone_between_the_end_and_the_reading(tmp_path, kind, reason):
    """Seen ended by an earlier process, gone since: asked once more what it is, then held."""
    heard = Heard()
    async with simulate() as sim:
        async with runner_on(sim, tmp_path / "run.db", on_event=heard) as runner:
            rule = sim.on("results", Error(500))
            first = await runner.run(items(3))
            assert {o.reason for o in first.unresolved} == {"unreadable"}
            assert heard.of(BatchEnded)
            sim.off(rule)
            (batch,) = sim.world.batches.values()
            if kind == "deleted":
                batch.deleted = True
            else:
                batch.created_at -= 30 * 86_400
            result = await runner.resume()
            assert {o.reason for o in result.unresolved} == {reason}
            assert len(sim.creates) == 1
            assert (await runner.resume(resubmit=[reason])).complete


async def test_c30_a_404_of_results_that_are_there_is_waited_out():
    """Right after the end results may be "not available" for a moment."""
    heard = Heard()
    async with simulate() as sim, runner_on(sim, on_event=heard) as runner:
        sim.on("results", [Error(404), Error(404)])
        result = await runner.run(items(3))

        assert result.complete
        assert len(heard.of(ResultsReread)) == 2
        assert heard.of(ItemsMerged)


async def test_c30_results_are_read_again_only_after_the_server_s_wait():
    """`retry-after` holds for results as for everything else."""
    at: list[float] = []

    def full(call: Call) -> Error | None:
        at.append(asyncio.get_running_loop().time())
        return Error(429, retry_after=0.3) if call.number == 1 else None

    async with simulate() as sim, runner_on(sim) as runner:
        sim.on("results", full)
        result = await runner.run([("a", params("a"))])

        assert result.complete
        assert at[1] - at[0] >= 0.3
