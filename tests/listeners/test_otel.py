"""Spans and metrics of real runs, in the SDK's own in-memory exporters."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from opentelemetry.sdk.metrics import MeterProvider
from opentelemetry.sdk.metrics.export import InMemoryMetricReader
from opentelemetry.sdk.trace import ReadableSpan, SpanProcessor, TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor, SpanExporter
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from tests.support import FAST, Heard, items, params, run_interrupted, runner_on

from batchwright import BatchRunner, Event, Polling, ShardLimits, Stay, Switch
from batchwright._ingest import CHUNK_ITEMS
from batchwright.errors import DuplicateItem
from batchwright.events import BatchPolled, ShardSubmitted
from batchwright.listeners import fan_out
from batchwright.listeners.otel import otel_listener
from batchwright.simulator import WorldSettings, errored
from batchwright.testing import simulate

SECRET = "the-prompt-nobody-may-see"


class Seen:
    """What was exported, and the listener that it comes from."""

    def __init__(self) -> None:
        self.exporter = InMemorySpanExporter()
        self.tracing = TracerProvider()
        self.tracing.add_span_processor(SimpleSpanProcessor(self.exporter))
        self.reader = InMemoryMetricReader()
        metering = MeterProvider([self.reader])
        self.listener = otel_listener(tracer_provider=self.tracing, meter_provider=metering)

    def spans(self, name: str) -> list[ReadableSpan]:
        """Return the finished spans of one name, without the prefix."""
        spans = self.exporter.get_finished_spans()
        return [span for span in spans if span.name == f"batchwright.{name}"]

    def metrics(self) -> dict[str, dict[tuple[Any, ...], float]]:
        """Return every value by metric and by the values of its attributes."""
        data = self.reader.get_metrics_data()
        assert data is not None
        return {
            metric.name.removeprefix("batchwright."): {
                tuple(point.attributes.values()): point.value for point in metric.data.data_points
            }
            for resource in data.resource_metrics
            for scope in resource.scope_metrics
            for metric in scope.metrics
        }


@pytest.fixture
def seen() -> Iterator[Seen]:
    """A fresh exporter, reader and listener."""
    seen = Seen()
    yield seen
    seen.tracing.shutdown()


def told(span: ReadableSpan) -> dict[str, Any]:
    """Return the attributes of a span, without the prefix."""
    return {key.removeprefix("batchwright."): value for key, value in span.attributes.items()}


def parents(spans: list[ReadableSpan]) -> set[int | None]:
    """Return the ids of the parents."""
    return {span.parent.span_id if span.parent else None for span in spans}


async def test_spans_of_a_run(seen: Seen):
    """Run, wave, shards and their two phases nest, and carry ids and counts."""
    async with (
        simulate() as sim,
        runner_on(sim, on_event=seen.listener, limits=ShardLimits(max_requests=10)) as runner,
    ):
        sim.fate_for("doc-3", errored("invalid_request_error", SECRET))
        await runner.run(items(30), run_id="traced")
        batches = {create.batch_id for create in sim.creates}

    (run,), (wave,) = seen.spans("run"), seen.spans("wave")
    shards, polls, harvests = (seen.spans(name) for name in ("shard", "poll", "harvest"))
    assert parents([run]) == {None}
    assert parents([wave]) == {run.context.span_id}
    assert parents(shards) == {wave.context.span_id}
    assert parents(polls) == parents(harvests) == {span.context.span_id for span in shards}
    assert told(run) == {"run_id": "traced"}
    assert told(wave) == {
        "run_id": "traced", "wave": 1, "policy": "cost", "items": 30, "direct": 0,
        "succeeded": 29, "quarantined": 1, "rejected": 0, "unresolved": 0,
    }  # fmt: skip
    assert {told(span)["batch_id"] for span in shards} == batches
    assert sum(told(span)["count"] for span in shards) == 30
    assert {told(span)["org"] for span in shards} == {"default"}
    assert not any("resumed" in told(span) for span in shards)
    assert all(told(span)["looks"] >= 1 and told(span)["status"] == "ended" for span in polls)
    assert sum(told(span)["lines"] for span in harvests) == 30
    assert sum(told(span)["quarantined"] for span in harvests) == 1
    assert {span.status.status_code.name for span in (run, wave, *shards)} == {"UNSET"}
    for span in (wave, *shards, *polls, *harvests):
        assert run.start_time <= span.start_time <= span.end_time <= run.end_time


async def test_a_run_is_a_child_of_its_callers_span(seen: Seen):
    """Who traces a pipeline finds the run in it."""
    tracer = seen.tracing.get_tracer("pipeline")
    async with simulate() as sim, runner_on(sim, on_event=seen.listener) as runner:
        with tracer.start_as_current_span("nightly") as nightly:
            await runner.run(items(3))
            await runner.resume()
    assert parents(seen.spans("run")) == {nightly.get_span_context().span_id}
    assert len(seen.spans("run")) == 2


async def test_metrics_of_a_run(seen: Seen):
    """Items by where they stand; what lives, retries; all of it back to rest at the end."""
    async with simulate() as sim, runner_on(sim, on_event=seen.listener) as runner:
        sim.fate_for("doc-1", errored("invalid_request_error", "no"))
        sim.fate_for("doc-2", [errored("api_error", "later")])
        await runner.run(items(5), run_id="m")
    metrics = seen.metrics()
    standing = {state: count for (_, state), count in metrics["items"].items() if count}
    assert standing == {"succeeded": 4, "quarantined": 1}
    assert metrics["batches.live"] == {("m", "default"): 0}
    assert metrics["batches.oldest"] == {("m",): 0.0}
    assert metrics["items.retried"] == {("m",): 1}


async def test_live_batches_have_an_age(seen: Seen):
    """While a batch lives it is counted under its org, and its age moves on."""
    heard = Heard()
    async with (
        simulate(settings=WorldSettings(duration=(80_000, 80_000))) as sim,
        runner_on(sim, on_event=fan_out(seen.listener, heard)) as runner,
    ):
        task = asyncio.create_task(runner.run(items(5), run_id="m"))
        await heard.until(BatchPolled)
        while not seen.metrics()["batches.live"]["m", "default"]:
            await asyncio.sleep(0.001)
        metrics = seen.metrics()
        assert metrics["items"]["m", "in_flight"] == 5
        # As the server counts time, which runs fast here.
        assert metrics["batches.oldest"]["m",] == heard.of(BatchPolled)[-1].age > 0
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
    assert seen.metrics()["batches.live"] == {("m", "default"): 0}


async def test_an_interrupted_run_and_the_one_that_goes_on(seen: Seen, tmp_path: Path):
    """Spans end with the process's work; the next one goes on with a shard it did not send."""
    heard = Heard()
    options: dict[str, Any] = {"on_event": fan_out(seen.listener, heard)}
    async with simulate(settings=WorldSettings(duration=(4_000, 4_000))) as sim:
        async with runner_on(sim, tmp_path / "a.db", **options) as runner:
            await run_interrupted(runner, items(4), heard)
        (first,) = seen.spans("shard")
        for span in (first, *seen.spans("wave"), *seen.spans("run"), *seen.spans("poll")):
            assert (span.status.status_code.name, span.status.description) == (
                "ERROR",
                "interrupted",
            )
        seen.exporter.clear()
        async with runner_on(sim, tmp_path / "a.db", **options) as runner:
            await runner.resume()
    (second,) = seen.spans("shard")
    assert told(second)["resumed"] is True
    assert told(second)["batch_id"] == told(first)["batch_id"]
    assert second.status.status_code.name == "UNSET"


async def test_a_call_that_raises(seen: Seen):
    """The span of a call ends with the name of what the caller gets."""
    async with simulate() as sim, runner_on(sim, on_event=seen.listener) as runner:
        with pytest.raises(DuplicateItem):
            await runner.run([*items(CHUNK_ITEMS), *items(1)])
    (run,) = seen.spans("run")
    assert (run.status.status_code.name, run.status.description) == ("ERROR", "DuplicateItem")
    assert seen.spans("wave") == []


async def test_a_batch_past_its_deadline(seen: Seen):
    """R5: the alarm is an event of the wave, and the shard ends as held."""
    settings = WorldSettings(
        stuck=True, lifetime=600.0, cancel_seconds=(1e9, 1e9), cancel_in_flight=1.0
    )
    polling = Polling(interval=0.02, grace=0.01)
    async with (
        simulate(settings=settings) as sim,
        runner_on(sim, on_event=seen.listener, polling=polling) as runner,
    ):
        await runner.run(items(3))
    (wave,), (shard,) = seen.spans("wave"), seen.spans("shard")
    names = [event.name for event in wave.events]
    assert "DeadlineExceeded" in names
    assert names.index("DeadlineExceeded") < names.index("ShardHeld")
    assert (shard.status.status_code.name, shard.status.description) == ("ERROR", "overdue")


async def test_a_switch(seen: Seen):
    """R23: it is counted, told in the trace with its reason's numbers, and direct answers too."""

    class AtOnce:
        def decide(self, snapshot: Any) -> Stay | Switch:
            return Switch("now") if snapshot.batches else Stay("not yet")

    async with (
        simulate(settings=WorldSettings(stuck=True, cancel_in_flight=0.0)) as sim,
        runner_on(sim, on_event=seen.listener, policy=AtOnce()) as runner,
    ):
        result = await runner.run(items(6), run_id="m")
    assert result.complete
    assert seen.metrics()["switches"] == {("m",): 1}
    (wave,) = seen.spans("wave")
    assert told(wave)["direct"] == told(wave)["succeeded"] == 6
    (event,) = (event for event in wave.events if event.name == "SwitchDecided")
    assert event.attributes["batchwright.remaining"] == 6


async def test_no_prompt_and_no_key(seen: Seen):
    """Neither is in any span or metric, also where a validator, a policy or the API quotes it."""

    class Talkative:
        def decide(self, snapshot: Any) -> Stay:
            raise RuntimeError(SECRET)

    def check(outcome: Any) -> None:
        if outcome.id == "b":
            raise RuntimeError(SECRET)
        raise ValueError(SECRET)

    heard = Heard()
    asked = [(name, params(SECRET)) for name in "abc"]
    async with (
        simulate() as sim,
        runner_on(
            sim, on_event=fan_out(seen.listener, heard), policy=Talkative(), validate=check
        ) as runner,
    ):
        sim.fate_for("c", errored("invalid_request_error", SECRET))
        await runner.run(asked)
    assert SECRET in repr(heard)
    spans = seen.exporter.get_finished_spans()
    everything = " ".join(span.to_json() for span in spans) + repr(seen.metrics())
    assert "PolicyBroke" in everything
    assert "ValidatorBroke" in everything
    assert SECRET not in everything
    assert sim.api_key not in everything


class Broken(SpanExporter, SpanProcessor):
    """An exporter that raises, and a processor that does so too."""

    def export(self, spans: Any) -> Any:
        raise OSError("no collector")

    def on_start(self, span: Any, parent_context: Any = None) -> None:
        raise OSError("no collector")

    def on_end(self, span: Any) -> None:
        raise OSError("no collector")

    def shutdown(self) -> None:
        """Nothing is open."""


@pytest.mark.parametrize("processor", [SimpleSpanProcessor(Broken()), Broken()])
async def test_a_broken_exporter_stops_nothing(
    seen: Seen, processor: SpanProcessor, caplog: pytest.LogCaptureFixture
):
    """The run goes on, other listeners hear all, and the log says so without end."""
    heard = Heard()
    seen.tracing.add_span_processor(processor)
    async with (
        simulate() as sim,
        runner_on(sim, on_event=fan_out(seen.listener, heard), polling=FAST) as runner,
    ):
        result = await runner.run(items(5))
    assert result.complete
    assert heard.of(ShardSubmitted)
    assert seen.metrics()["items"]["default", "succeeded"] == 5
    errors = [record for record in caplog.records if record.exc_info]
    assert errors
    assert len([record for record in errors if record.name == "batchwright"]) <= 1


async def test_without_a_provider():
    """Where nobody set up OpenTelemetry, the listener does nothing and costs no setting."""
    async with simulate() as sim, runner_on(sim, on_event=otel_listener()) as runner:
        assert (await runner.run(items(2))).complete


def test_fan_out_keeps_the_order_and_logs_once(caplog: pytest.LogCaptureFixture):
    """Each listener hears each event in turn; one that breaks is in the log once at ERROR."""
    heard: list[tuple[str, Event]] = []

    def broken(event: Event) -> None:
        raise RuntimeError("broken")

    both = fan_out(
        lambda event: heard.append(("a", event)), broken, lambda event: heard.append(("b", event))
    )
    with caplog.at_level("ERROR", "batchwright"):
        for number in range(3):
            both(ShardSubmitted(
                run_id="r", shard=number, org="o", batch_id="b", count=1, size=1, expires_at=None
            ))  # fmt: skip
    assert [name for name, _ in heard] == ["a", "b"] * 3
    assert len(caplog.records) == 1
    assert BatchRunner(store="memory://", on_event=both)
