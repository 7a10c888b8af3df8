"""The real SDK against the simulator, unmodified."""

from __future__ import annotations

from collections.abc import AsyncIterator

import anthropic
import orjson
import pytest

from batchwright.simulator import Simulator, WorldSettings, expected_text


async def test_whole_life_of_a_batch(client, item, clock):
    """Create, retrieve, results and delete through the SDK's typed methods."""
    sent = item("a", "what?")
    batch = await client.messages.batches.create(requests=[sent])
    assert isinstance(batch, anthropic.types.messages.MessageBatch)
    assert (await client.messages.batches.retrieve(batch.id)).processing_status == "in_progress"
    clock.advance(100)
    (line,) = [line async for line in await client.messages.batches.results(batch.id)]
    assert line.custom_id == "a"
    assert line.result.message.content[0].text == expected_text(sent["params"])
    assert line.result.message.model == "claude-haiku-4-5-20251001"
    assert line.result.message.usage.service_tier == "batch"
    assert (await client.messages.batches.delete(batch.id)).type == "message_batch_deleted"
    with pytest.raises(anthropic.NotFoundError):
        await client.messages.batches.retrieve(batch.id)


async def test_results_of_a_running_batch(client, item):
    """The SDK finds no results url on a running batch."""
    batch = await client.messages.batches.create(requests=[item()])
    with pytest.raises(anthropic.AnthropicError, match="results_url"):
        await client.messages.batches.results(batch.id)


async def test_auto_paging(sim, client, item):
    """Iterating a list fetches page after page."""
    made = [(await client.messages.batches.create(requests=[item(f"a{n}")])).id for n in range(5)]
    got = [batch.id async for batch in client.messages.batches.list(limit=2)]
    assert got == made[::-1]
    assert len(sim.calls("list")) == 3


async def test_cancel(client, item, clock):
    """Cancel through the SDK, to the end."""
    batch = await client.messages.batches.create(requests=[item()])
    assert (await client.messages.batches.cancel(batch.id)).processing_status == "canceling"
    clock.advance(10)
    assert (await client.messages.batches.retrieve(batch.id)).processing_status == "ended"


async def test_beta_methods(client, item):
    """The beta methods use the same endpoints; the beta query of older SDKs is ignored."""
    batch = await client.beta.messages.batches.create(
        requests=[item()], betas=["output-300k-2026-03-24"]
    )
    again = await client.beta.messages.batches.retrieve(batch.id, extra_query={"beta": "true"})
    assert again.id == batch.id


async def test_models(client):
    """Models are listed, found by alias, and say that they take batches."""
    names = [model.id async for model in client.models.list()]
    assert "claude-haiku-4-5-20251001" in names
    model = await client.models.retrieve("claude-haiku-4-5")
    assert model.id == "claude-haiku-4-5-20251001"
    assert model.capabilities.batch.supported


async def test_streamed_upload_and_raw_results(sim, client, item, clock):
    """An async generator of bytes with a Content-Length, and results without a retrieve."""
    body = orjson.dumps({"requests": [item(f"a{n}") for n in range(50)]})

    async def pieces() -> AsyncIterator[bytes]:
        for start in range(0, len(body), 1000):
            yield body[start : start + 1000]

    headers = {"content-type": "application/json", "content-length": str(len(body))}
    batch = await client.post(
        "/v1/messages/batches", cast_to=object, content=pieces(), options={"headers": headers}
    )
    (create,) = sim.creates
    assert create.content_length == str(len(body)) == str(create.body_size)
    assert create.transfer_encoding is None
    assert create.custom_ids == tuple(f"a{n}" for n in range(50))
    assert (create.batch_id, create.registered, create.delivered) == (batch["id"], True, True)
    clock.advance(100)
    raw = {"X-Stainless-Raw-Response": "stream", "Accept": "application/x-jsonl"}
    answer = await client.get(
        f"/v1/messages/batches/{batch['id']}/results", cast_to=object, options={"headers": raw}
    )
    data = b"".join([part async for part in answer.iter_bytes()])
    await answer.close()
    assert len(data.splitlines()) == 50
    assert answer.headers["content-type"] == "application/x-jsonl"
    assert [record.route for record in sim.requests] == ["create", "results"]


async def test_direct_calls(sim, client, params):
    """Plain and streamed messages give the text a batch would give; both are in the books."""
    asked = params("what?")
    plain = await client.messages.create(**asked)
    async with client.messages.stream(**asked) as stream:
        streamed = await stream.get_final_message()
    assert plain.content[0].text == streamed.content[0].text == expected_text(asked)
    assert plain.usage.service_tier == "standard"
    assert streamed.stop_reason == "end_turn"
    assert streamed.usage.output_tokens == plain.usage.output_tokens
    assert sim.world.books().direct == {expected_text(asked): 2}


async def test_content_blocks(sim, client, item, params, clock):
    """An answer may be whole blocks: the SDK reads a tool's use from all three ways alike."""
    said = [
        {"type": "thinking", "thinking": "Hm.", "signature": "s"},
        {"type": "text", "text": "Let me look. " * 3},
        {"type": "tool_use", "id": "toolu_1", "name": "look", "input": {"at": ["here", 3, None]}},
    ]
    sim.world.configure(answer=lambda asked: said)
    plain = await client.messages.create(**params("where?"))
    async with client.messages.stream(**params("where?")) as stream:
        streamed = await stream.get_final_message()
    batch = await client.messages.batches.create(requests=[item("a")])
    clock.advance(100)
    results = [line async for line in await client.messages.batches.results(batch.id)]
    for message in (plain, streamed, results[0].result.message):
        assert [block.type for block in message.content] == ["thinking", "text", "tool_use"]
        assert message.content[1].text == said[1]["text"]
        assert message.content[2].input == said[2]["input"]
        assert message.stop_reason == "tool_use"
        assert message.usage.output_tokens > 40


async def test_direct_errors(client, params):
    """A direct call is told at once what a batch tells by its line; prompts can ask for it."""
    with pytest.raises(anthropic.NotFoundError, match="model: nope"):
        await client.messages.create(**params(model="nope"))
    with pytest.raises(anthropic.BadRequestError, match="max_tokens: 9999999 > 64000"):
        await client.messages.create(**params(max_tokens=9_999_999), timeout=30)
    asked = params("[[sim:error overloaded_error,succeed]]")
    with pytest.raises(anthropic.APIStatusError) as caught:
        await client.messages.create(**asked)
    assert caught.value.status_code == 529
    assert (await client.messages.create(**asked)).stop_reason == "end_turn"


async def test_gateway_prefix(sim, item, clock):
    """A base URL with a path prefix works, and comes back in the results url."""
    url = f"{sim.url}/gateway"
    async with anthropic.AsyncAnthropic(base_url=url, api_key="k", max_retries=0) as sdk:
        batch = await sdk.messages.batches.create(requests=[item()])
        clock.advance(100)
        ended = await sdk.messages.batches.retrieve(batch.id)
        assert ended.results_url == f"{url}/v1/messages/batches/{batch.id}/results"
        assert len([line async for line in await sdk.messages.batches.results(batch.id)]) == 1


def test_blocking_use(item):
    """`with` serves on a thread of its own for the blocking SDK."""
    settings = WorldSettings(duration=(0, 0))
    with (
        Simulator(settings=settings) as sim,
        anthropic.Anthropic(**sim.client_options(), max_retries=0) as sdk,
    ):
        batch = sdk.messages.batches.create(requests=[item()])
        assert batch.processing_status == "ended"
        assert len(list(sdk.messages.batches.results(batch.id))) == 1
