# pyright: strict
"""
Every public name as a caller would use it: read by type checkers, never run.

`assert_type` says what a name must be known as; a checker complains where it is anything else.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator, Mapping, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, assert_type

import anthropic
from anthropic.types import Message, Usage
from pydantic import BaseModel, TypeAdapter

import batchwright
from batchwright import (
    AdaptivePolicy,
    Anomaly,
    AnsweredFromCache,
    AsyncAnthropic,
    BatchCanceled,
    BatchEnded,
    BatchHarvested,
    BatchPolled,
    BatchRecovered,
    BatchRunner,
    BatchSkipped,
    BatchwrightError,
    CallRetried,
    CanaryFailed,
    ChangedItem,
    CheckpointStore,
    Conducting,
    ConfigurationError,
    CreateSettled,
    CreateUnknown,
    Deadline,
    DeadlineExceeded,
    DispatchPolicy,
    DuplicateItem,
    Event,
    Gathering,
    IncompleteRun,
    IntakeError,
    IntakeProgressed,
    Item,
    ItemError,
    ItemsMerged,
    MassRefusal,
    Org,
    OrgPaused,
    OtherRun,
    Outcome,
    PlanReport,
    PolicyBroke,
    PollFailed,
    Polling,
    Progressed,
    ResultsReread,
    RetryBudget,
    RunFailed,
    RunFinished,
    RunInterrupted,
    RunLocked,
    RunReport,
    RunResult,
    RunStarted,
    RunStatus,
    SchemaTooNew,
    ShardFailed,
    ShardHeld,
    ShardLimits,
    ShardPlanned,
    ShardRefused,
    ShardSubmitted,
    StatusUnknown,
    Stay,
    StoreBusy,
    StoreCorrupt,
    StoreError,
    StoreFull,
    Switch,
    SwitchDecided,
    SyncLimits,
    ValidatorBroke,
    WaitingForOwner,
    WaveLooksWedged,
    WaveSnapshot,
    WorkerJoined,
    WorkerLost,
    items_from_dataframe,
    items_from_jsonl,
    run,
    show_progress,
    to_dataframe,
)
from batchwright.listeners import fan_out
from batchwright.listeners.otel import otel_listener
from batchwright.simulator import Simulator, WorldSettings, errored, succeed
from batchwright.stores import MemoryStore, SQLiteStore
from batchwright.testing import check_checkpoint_store, check_dispatch_policy, simulate

PARAMS: Mapping[str, Any] = {
    "model": "claude-haiku-5-5",
    "max_tokens": 50,
    "messages": [{"role": "user", "content": "Hi"}],
}


class Verdict(BaseModel):
    """What answers are parsed as."""

    score: int


# -- items ----------------------------------------------------------------------------------------


def items() -> Iterator[Item]:
    """Yield items in full."""
    yield Item("doc-1", PARAMS)
    yield Item("doc-2", PARAMS, headers={"anthropic-beta": "x"}, metadata={"any": ["thing"]})


async def items_as_they_come() -> AsyncIterator[Item]:
    """Yield items from somewhere that is waited for."""
    yield Item("doc-1", PARAMS)


async def every_form_of_items(runner: BatchRunner, frame: Any) -> None:
    """What `run` takes."""
    await runner.run(items())
    await runner.run(items_as_they_come())
    await runner.run([("doc-1", PARAMS), ("doc-2", PARAMS)])
    await runner.run([{"custom_id": "doc-1", "params": PARAMS}])
    await runner.run({"doc-1": PARAMS}.items())
    assert_type(items_from_jsonl("items.jsonl"), Iterator[Item])
    await runner.run(items_from_jsonl(Path("items.jsonl.gz")))
    rows = items_from_dataframe(
        frame, id="key", prompt="Say {word}", params=PARAMS, metadata=["word"]
    )
    assert_type(rows, Iterator[Item])
    items_from_dataframe(
        frame, id=lambda row: row["key"], params=lambda row: {**PARAMS, "system": row["text"]}
    )


# -- options --------------------------------------------------------------------------------------


def check(outcome: Outcome) -> bool:
    """Validate by looking at the outcome."""
    return not outcome.truncated and not outcome.refused


async def check_later(outcome: Outcome) -> None:
    """Validate with waiting."""
    if not outcome.text:
        raise ValueError("empty")


class HalfAtNight:
    """A policy of one's own."""

    def decide(self, snapshot: WaveSnapshot) -> Stay | Switch:
        """Decide by all that a snapshot shows."""
        if snapshot.now.hour < 6 and snapshot.remaining > 100 and snapshot.moment == "tick":
            return Switch("it is night", share=0.5)
        return Stay(f"{snapshot.premium} extra, {snapshot.batch_finish.likely} to go")


def every_option(client: anthropic.AsyncAnthropic, store: CheckpointStore) -> list[BatchRunner]:
    """What a runner is made with."""
    own: DispatchPolicy = HalfAtNight()
    orgs: Sequence[Org] = [Org("a", client, max_queued=50_000, rpm=1_000), Org("b", client)]
    return [
        BatchRunner(),
        BatchRunner(client=client, store=Path("run.db"), policy="latency", validate=Verdict),
        BatchRunner(store="memory://", policy=own, validate=TypeAdapter(list[int])),
        BatchRunner(store=MemoryStore(), policy=Deadline(3_600.0), validate=check),
        BatchRunner(store=SQLiteStore("run.db"), policy=AdaptivePolicy("balanced", race=True)),
        BatchRunner(
            orgs=orgs,
            store=store,
            policy=Deadline(datetime.now(UTC), safety=2.0),
            limits=ShardLimits(max_requests=5_000, max_live=10),
            polling=Polling(interval=30.0, grace=600.0),
            retry=RetryBudget(max_attempts=2),
            sync=SyncLimits(concurrency=8, rpm=500),
            validate=check_later,
            on_changed="rerun",
            retry_rejected=True,
            canary=0,
            cache=True,
            preflight=False,
            on_event=fan_out(hear, show_progress(), otel_listener()),
        ),
    ]


# -- calls ----------------------------------------------------------------------------------------


async def the_sdks_client(store: CheckpointStore) -> anthropic.AsyncAnthropic:
    """The client whose calls gather is the SDK's to a type checker too."""
    options = Gathering(size=100, quiet=1.0, longest=10.0)
    async with AsyncAnthropic(store=store, run_id="a", gathering=options, api_key="k") as client:
        message = await client.messages.create(
            model="claude-haiku-4-5",
            max_tokens=9,
            messages=[{"role": "user", "content": "hi"}],
        )
        assert_type(message, Message)
        assert_type(client.direct, anthropic.AsyncAnthropic)
        assert_type(client.with_options(timeout=3.0), AsyncAnthropic)
        await client.close()
    return client


async def every_call(runner: BatchRunner) -> None:
    """What a runner does."""
    async with runner as entered:
        assert_type(entered, BatchRunner)
        assert_type(await runner.plan(items(), offline=True), PlanReport)
        assert_type(await runner.run(items(), run_id="a", collect=False), RunResult)
        assert_type(await runner.resume("a", resubmit=["exhausted"], adopt={"b": 1}), RunResult)
        assert_type(await runner.load(items(), "a"), RunStatus)
        assert_type(await runner.work("a", wait=5.0), RunResult)
        assert_type(await runner.cancel("a"), RunResult)
        assert_type(await runner.recover(items(), "a"), RunResult)
        assert_type(await runner.switch("a"), RunResult | None)
        assert_type((await runner.request_cancel("a", timeout=5.0)).asked, Sequence[str])
        assert_type(await runner.status("a"), RunStatus)
        assert_type(await runner.report("a"), RunReport)
        async for outcome in runner.outcomes("a"):
            assert_type(outcome, Outcome)
        async with runner.stream(items(), run_id="a") as stream:
            async for outcome in stream:
                assert_type(outcome, Outcome)


def blocking() -> RunResult:
    """The form for scripts; its options are checked too."""
    run(items(), stor="a.db")  # type: ignore[call-arg]  # pyright: ignore[reportCallIssue]
    return batchwright.run(items(), store="a.db", policy="sync", validate=Verdict, run_id="a")


# -- what comes back ------------------------------------------------------------------------------


async def every_part_of_a_result(result: RunResult) -> None:
    """What a result is asked for."""
    assert_type(result.messages["doc-1"], Message)
    assert_type(result["doc-1"], Outcome)
    assert_type(result.outcomes["doc-1"], Outcome)
    assert_type(result.outcomes[0], Outcome)
    assert_type(result.outcomes[1:], tuple[Outcome, ...])
    assert_type(result.quarantined, tuple[Outcome, ...])
    assert_type(result.rejected + result.unresolved, tuple[Outcome, ...])
    assert_type(result.complete, bool)
    assert_type(result.summary(), str)
    assert_type(result.reasons(), dict[str, int])
    assert_type(len(result), int)
    assert_type(result.report, RunReport)
    assert_type(result.report.model_dump_json(), str)
    lines: int = result.to_jsonl("out.jsonl")
    lines = await result.to_jsonl(Path("out.jsonl")) + lines
    to_dataframe(result, "pandas")
    to_dataframe([outcome async for outcome in result], "polars")
    try:
        result.raise_if_incomplete()
    except IncompleteRun as error:
        assert_type(error.result, RunResult)


def every_part_of_an_outcome(outcome: Outcome) -> None:
    """What an outcome tells."""
    assert_type(outcome.message, Message | None)
    assert_type(outcome.text, str)
    assert_type(outcome.usage, Usage | None)
    assert_type(outcome.stop_reason, str | None)
    assert_type(outcome.error, ItemError | None)
    assert_type(outcome.raw, bytes | None)
    assert_type(outcome.attempts, int)
    if outcome.status == "unresolved" and outcome.via == "sync" and outcome.error is not None:
        print(outcome.id, outcome.reason, outcome.error.type, outcome.error.code)


def every_error(error: BatchwrightError) -> str:
    """What can be caught, the special before the general."""
    match error:
        case DuplicateItem():
            return f"{error.item_id} at {error.positions[0]} and {error.positions[1]}"
        case ChangedItem():
            return f"{error.item_id} in {error.run_id}"
        case MassRefusal():
            return f"{error.refused} of {error.total}"
        case CanaryFailed():
            return error.refusal
        case OtherRun():
            return f"{error.held} and {error.passed}"
        case IntakeError() | ConfigurationError():
            return str(ValueError(error))
        case StoreBusy() | StoreCorrupt() | StoreFull() | SchemaTooNew() | StoreError():
            return "the store"
        case _:
            return "locked" if isinstance(error, RunLocked) else "other"


# -- events ---------------------------------------------------------------------------------------


def hear(event: Event) -> None:
    """Listen to everything."""
    assert_type(event.run_id, str)
    match event:
        case RunStarted() | RunFinished():
            print(event.wave, event.items)
        case RunFailed() | PolicyBroke() | ValidatorBroke():
            print(event.error)
        case RunInterrupted() | WaveLooksWedged():
            print(event.live, event.advice)
        case WorkerJoined() | WorkerLost():
            print(event.worker)
        case Conducting():
            print(event.wave)
        case IntakeProgressed() | AnsweredFromCache() | WaitingForOwner():
            print(event)
        case ShardPlanned() | ShardSubmitted():
            print(event.shard, event.org, event.count, event.size)
        case CreateUnknown() | CreateSettled() | ShardHeld():
            print(event.count)
        case ShardRefused() | ShardFailed():
            print(event.shard)
        case BatchPolled() | StatusUnknown():
            print(event.status)
        case BatchEnded() | BatchHarvested() | BatchRecovered() | BatchCanceled():
            print(event.batch_id)
        case BatchSkipped() | PollFailed() | CallRetried() | ResultsReread():
            print(event.why)
        case ItemsMerged() | Progressed():
            print(event.succeeded + event.quarantined + event.rejected + event.unresolved)
        case Anomaly():
            print(event.kind, event.examples)
        case OrgPaused() | SwitchDecided():
            print(event.reason)
        case DeadlineExceeded():
            assert_type(event.expires_at, datetime | None)
        case _:
            pass


# -- testing --------------------------------------------------------------------------------------


def say(params: Mapping[str, Any]) -> str | list[dict[str, Any]]:
    """Answer for the simulated model."""
    return [{"type": "text", "text": str(params["max_tokens"])}]


async def test_with_a_simulator() -> None:
    """What tests of one's own use."""
    async with simulate(settings=WorldSettings(answer=say)) as api:
        assert_type(api, Simulator)
        api.fate_for("doc-1", [errored("api_error"), succeed("fine")])
        async with anthropic.AsyncAnthropic(**api.client_options()) as client:
            await BatchRunner(client=client, store="memory://").run(items())
        assert_type(len(api.creates), int)
    await check_checkpoint_store(MemoryStore)
    check_dispatch_policy(HalfAtNight())
