"""The SDK's aiohttp transport: the same facts, and the short way for direct calls."""

from __future__ import annotations

import anthropic
import pytest
from tests.support import EAGER, FAST, assert_own_answers, items, sent

from batchwright import BatchRunner, ShardLimits
from batchwright._api import CallFailed
from batchwright._gateway import SdkGateway, default_client
from batchwright.simulator import CutBody, Delay, Drop, Error, Respond
from batchwright.testing import simulate

BODY = b'{"requests":[{"custom_id":"a","params":{}}]}'


def on_aiohttp(sim, **more):
    """Return a client on the aiohttp transport."""
    return anthropic.AsyncAnthropic(
        **sim.client_options(), http_client=anthropic.DefaultAioHttpClient(), **more
    )


async def body():
    yield BODY


@pytest.mark.parametrize(
    "action", [Drop("before"), Drop("after"), Drop("after", reset=True), CutBody(after_bytes=9)]
)
async def test_a_connection_lost_after_sending_is_unknown(action):
    """The transport calls it a connect error; a create must not be repeated for that."""
    async with simulate() as sim, on_aiohttp(sim) as client:
        sim.on("create", action)
        with pytest.raises(CallFailed) as raised:
            await SdkGateway(client).create(body(), len(BODY), {})

        assert raised.value.failure.sent
        assert raised.value.failure.status is None


async def test_a_refused_connection_was_never_sent():
    """Nothing listens: not a byte left."""
    async with simulate() as sim, on_aiohttp(sim) as client:
        async with sim.down():
            with pytest.raises(CallFailed) as raised:
                await SdkGateway(client).create(body(), len(BODY), {})

        assert raised.value.failure.sent is False


async def test_batches_over_aiohttp():
    """Uploads declare their length, results stream, a lost create is found: all the same."""
    async with simulate() as sim, on_aiohttp(sim) as client:
        runner = BatchRunner(
            client=client,
            store="memory://",
            limits=ShardLimits(max_requests=10),
            polling=FAST,
            retry=EAGER,
        )
        sim.on("create", [None, Drop("after")])
        result = await runner.run(items(25))

        assert result.complete
        assert_own_answers(result, items(25))
        assert set(sent(sim).values()) == {1}
        assert all(c.content_length == str(c.body_size) for c in sim.creates)
        assert all(c.transfer_encoding is None for c in sim.creates)


async def test_direct_calls_take_the_short_way(monkeypatch):
    """One call goes through the SDK; the others use its connections, with all of its headers."""
    through_sdk = []
    real = anthropic.AsyncAnthropic.post

    async def post(self, path, **more):
        through_sdk.append(path)
        return await real(self, path, **more)

    monkeypatch.setattr(anthropic.AsyncAnthropic, "post", post)
    headers = {"x-team": "judges"}
    async with simulate() as sim, on_aiohttp(sim, default_headers=headers) as client:
        gateway = SdkGateway(client)
        bytes_of = [
            b'{"model":"claude-haiku-4-5","max_tokens":5,"messages":[{"role":"user",'
            b'"content":"%d"}]}' % n
            for n in range(5)
        ]
        beta = {"anthropic-beta": "context-1m-2025-08-07"}
        replies = [await gateway.message(one, beta, stream=False) for one in bytes_of]

        assert through_sdk == ["/v1/messages"]
        assert len(sim.calls("message")) == 5
        first, *others = sim.calls("message")
        assert {c.headers["x-team"] for c in sim.calls("message")} == {"judges"}
        assert {c.headers["anthropic-beta"] for c in sim.calls("message")} == set(beta.values())
        own = {"x-stainless-raw-response", "connection"}
        for other in others:
            assert first.headers.keys() - own == other.headers.keys() - own
        assert all(b"echo:%d" % n in reply.body for n, reply in enumerate(replies))


@pytest.mark.parametrize(
    ("action", "status", "type_"),
    [
        (Error(400, message="messages: bad"), 400, "invalid_request_error"),
        (Error(429, retry_after=3), 429, "rate_limit_error"),
        (Error(529), 529, "overloaded_error"),
        (Respond(502, "<html>bad gateway</html>"), 502, None),
        (Respond(200, "<html>login</html>"), 200, None),
        (Drop("after"), None, None),
    ],
)
async def test_failures_on_the_short_way_are_the_same_facts(action, status, type_):
    """The table of faults does not know which way a call took."""
    one = b'{"model":"claude-haiku-4-5","max_tokens":5,"messages":[{"role":"user","content":"x"}]}'
    async with simulate() as sim, on_aiohttp(sim) as client:
        gateway = SdkGateway(client)
        await gateway.message(one, {}, stream=False)
        sim.on("message", action)
        with pytest.raises(CallFailed) as raised:
            await gateway.message(one, {}, stream=False)

        failure = raised.value.failure
        assert (failure.status, failure.type, failure.sent) == (status, type_, True)
        if status == 429:
            assert failure.retry_after == 3


async def test_a_slow_answer_on_the_short_way_is_a_failed_call(monkeypatch):
    """Silence has a bound there too."""
    monkeypatch.setattr("batchwright._gateway.MESSAGE_TIMEOUT", 0.05)
    one = b'{"model":"claude-haiku-4-5","max_tokens":5,"messages":[{"role":"user","content":"x"}]}'
    async with simulate() as sim, on_aiohttp(sim) as client:
        gateway = SdkGateway(client)
        await gateway.message(one, {}, stream=False)
        sim.on("message", Delay(0.5))
        with pytest.raises(CallFailed) as raised:
            await gateway.message(one, {}, stream=False)

        assert raised.value.failure.status is None


async def test_the_default_client_uses_what_is_installed(monkeypatch):
    """With the extra the SDK's aiohttp transport, without it the SDK's own choice."""
    monkeypatch.setenv("ANTHROPIC_API_KEY", "x")
    async with default_client() as fast:
        assert "iohttp" in type(fast._client._transport).__name__
    monkeypatch.setattr("batchwright._gateway.find_spec", lambda name: None)
    async with default_client() as plain:
        assert "iohttp" not in type(plain._client._transport).__name__
