"""The only importer of the SDK: raw bytes, its errors as facts, no retries, no keys."""

from __future__ import annotations

import anthropic
import pytest
from tests.support import params

from batchwright import ConfigurationError
from batchwright._api import CallFailed
from batchwright._gateway import SdkGateway, default_client
from batchwright.simulator import CutBody, Drop, Error, Gzip, Hang, Respond, WorldSettings
from batchwright.testing import simulate

BODY = b'{"requests":[{"custom_id":"a","params":{}}]}'
SECRET = "sk-ant-api03-SECRET-0123456789abcdef"


async def body():
    yield BODY[:10]
    yield BODY[10:]


async def failure_of(call):
    with pytest.raises(CallFailed) as raised:
        await call
    return raised.value.failure


async def test_create_retrieve_list_cancel_results():
    """Every call of the port against the simulator, with the head of each answer."""
    async with simulate(settings=WorldSettings(duration=(80_000, 80_000))) as sim:
        async with anthropic.AsyncAnthropic(**sim.client_options()) as client:
            gateway = SdkGateway(client)
            made = await gateway.create(
                body(), len(BODY), {"anthropic-beta": "files-api-2025-04-14"}
            )
            batch_id = made.data["id"]
            seen = await gateway.retrieve(batch_id)
            page = await gateway.list(limit=10)
            older = await gateway.list(limit=10, after_id=batch_id)
            models = await gateway.models()
            await gateway.cancel(batch_id)
            while (await gateway.retrieve(batch_id)).data["processing_status"] != "ended":
                pass
            async with gateway.results(batch_id) as chunks:
                got = b"".join([chunk async for chunk in chunks])

        assert made.server_time is not None
        assert made.organization
        assert made.workspace
        assert seen.retry_after == 10.0
        assert [b["id"] for b in page.data["data"]] == [batch_id]
        assert older.data["data"] == []
        assert models.data["data"]
        assert got.count(b"\n") == 1
        assert gateway.api_version == "2026-10-21"
        assert gateway.base_url == sim.url
        assert sim.creates[0].headers["anthropic-beta"] == "files-api-2025-04-14"
        assert sim.creates[0].content_length == str(len(BODY))


@pytest.mark.parametrize(
    ("action", "status", "type_", "sent"),
    [
        (Error(429, retry_after=7), 429, "rate_limit_error", True),
        (Error(500), 500, "api_error", True),
        (Error(529), 529, "overloaded_error", True),
        (Respond(502, "<html>bad gateway</html>"), 502, None, True),
        (Respond(503, b""), 503, None, True),
        (Respond(200, "<html>please log in</html>"), 200, None, True),
        (Respond(200, b'{"id": "x"'), 200, None, True),
        (Respond(200, b"[]"), 200, None, True),
        (Drop("before"), None, None, True),
        (Drop("after", reset=True), None, None, True),
        (CutBody(after_bytes=20), None, None, True),
    ],
)
@pytest.mark.parametrize("call", ["create", "retrieve"])
async def test_failures_become_facts(action, status, type_, sent, call):
    """Status, type and fate of a failed call, and exactly one request for it."""
    async with simulate() as sim:
        sim.on(call, action)
        async with anthropic.AsyncAnthropic(**sim.client_options(), max_retries=7) as client:
            gateway = SdkGateway(client)
            work = (
                gateway.create(body(), len(BODY), {})
                if call == "create"
                else gateway.retrieve("msgbatch_1")
            )
            failure = await failure_of(work)

        assert (failure.status, failure.type, failure.sent) == (status, type_, sent)
        assert len(sim.requests) == 1
        if isinstance(action, Error) and action.retry_after:
            assert failure.retry_after == 7


async def test_an_error_with_status_200_goes_through_the_table():
    """An error object is an error whatever its status; for a create it stays unknown."""
    said = {"type": "error", "error": {"type": "overloaded_error", "message": "m"}}
    async with simulate() as sim:
        sim.on("*", Respond(200, said))
        async with anthropic.AsyncAnthropic(**sim.client_options()) as client:
            gateway = SdkGateway(client)
            read = await failure_of(gateway.retrieve("b"))
            created = await failure_of(gateway.create(body(), len(BODY), {}))

    assert (read.status, read.type) == (529, "overloaded_error")
    assert (created.status, created.type) == (200, "overloaded_error")


async def test_a_refused_connection_was_never_sent():
    """Nothing listens: not a byte left, so it is safe to try again."""
    async with simulate() as sim, anthropic.AsyncAnthropic(**sim.client_options()) as client:
        async with sim.down():
            failure = await failure_of(SdkGateway(client).create(body(), len(BODY), {}))

    assert failure.status is None
    assert failure.sent is False


async def test_no_credential_is_refused_before_anything_is_sent():
    """The SDK raises a TypeError of its own; it becomes a fault of the account."""
    async with simulate() as sim:
        async with anthropic.AsyncAnthropic(base_url=sim.url, api_key=None) as client:
            failure = await failure_of(SdkGateway(client).retrieve("b"))

        assert failure.refused_unsent
        assert "authentication" in failure.message
        assert sim.requests == []


async def test_a_create_has_a_total_time_limit(monkeypatch):
    """Silence after an upload is an unknown create after a while, not a wait for ever."""
    monkeypatch.setattr("batchwright._gateway.CREATE_TIMEOUT", 0.05)
    async with simulate() as sim:
        sim.on("create", Hang())
        async with anthropic.AsyncAnthropic(**sim.client_options()) as client:
            failure = await failure_of(SdkGateway(client).create(body(), len(BODY), {}))

        assert failure.status is None
        assert failure.sent
        assert len(sim.world.batches) == 1


async def test_our_own_reading_error_is_not_disguised():
    """A store that fails in the middle of an upload is told as what it is."""

    async def broken():
        yield BODY[:10]
        raise OSError("the store is gone")

    async with simulate() as sim:
        async with anthropic.AsyncAnthropic(**sim.client_options()) as client:
            with pytest.raises(OSError, match="the store is gone"):
                await SdkGateway(client).create(broken(), len(BODY), {})

        assert sim.world.batches == {}


async def test_results_are_decoded_from_gzip_and_cut_streams_are_told():
    """Content encodings are undone; a broken stream is a failed call, not a silent end."""
    async with simulate() as sim:
        async with anthropic.AsyncAnthropic(**sim.client_options()) as client:
            gateway = SdkGateway(client)
            batch_id = (await gateway.create(body(), len(BODY), {})).data["id"]
            sim.world.finish(batch_id)
            sim.on("results", [Gzip(), CutBody(after_bytes=5), Error(404)])
            async with gateway.results(batch_id) as chunks:
                whole = b"".join([chunk async for chunk in chunks])
            with pytest.raises(CallFailed) as cut:
                async with gateway.results(batch_id) as chunks:
                    async for _ in chunks:
                        pass
            with pytest.raises(CallFailed) as gone:
                async with gateway.results(batch_id) as chunks:
                    pass

        assert whole.startswith(b'{"custom_id"')
        assert cut.value.failure.status is None
        assert gone.value.failure.status == 404
        assert [call.path for call in sim.calls("results")] == [
            f"/v1/messages/batches/{batch_id}/results"
        ] * 3


@pytest.mark.parametrize("key", [SECRET, SECRET + "\n", "plain-key-0123456789"])
async def test_no_key_reaches_a_failure(key):
    """Whatever the SDK or the transport puts into its text, the key is taken out."""
    async with simulate() as sim:
        sim.on(
            "*", Respond(400, {"type": "error", "error": {"type": "x", "message": f"bad {key}"}})
        )
        async with anthropic.AsyncAnthropic(base_url=sim.url, api_key=key) as client:
            failure = await failure_of(SdkGateway(client).retrieve("b"))

    assert key.strip() not in str(failure)
    assert "SECRET" not in str(failure)


def test_other_clients_are_refused():
    """A synchronous client cannot be awaited; said before anything runs."""
    with pytest.raises(ConfigurationError, match="AsyncAnthropic"):
        SdkGateway(anthropic.Anthropic(api_key="x"))


def test_the_default_client_has_no_retries_of_its_own(monkeypatch):
    """One retry layer: the SDK's is off."""
    monkeypatch.setenv("ANTHROPIC_API_KEY", "x")

    assert default_client().max_retries == 0


async def test_the_callers_client_is_left_as_it_is():
    """Our settings live on a copy; the caller's retries stay the caller's."""
    async with anthropic.AsyncAnthropic(api_key="x", max_retries=5) as client:
        SdkGateway(client)

        assert client.max_retries == 5
    assert params("x")["max_tokens"] == 64
