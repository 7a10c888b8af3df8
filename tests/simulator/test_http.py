"""The HTTP face: headers, credentials, limits, the log."""

from __future__ import annotations

import asyncio
import gzip
from email.utils import parsedate_to_datetime

import httpx2
import orjson
import pytest

from batchwright.simulator import Delay, Error, Hang, ManualClock, Simulator, WorldSettings


async def test_headers_of_every_answer(sim, http, path, clock):
    """Ids of request, organization and workspace, rate limits, and the world's date."""
    clock.advance(1_000_000)
    answer = await http.get(path)
    assert answer.headers["request-id"].startswith("req_01")
    assert answer.headers["anthropic-workspace-id"].startswith("wrkspc_01")
    assert len(answer.headers["anthropic-organization-id"]) == 36
    assert answer.headers["anthropic-ratelimit-requests-limit"] == "4000"
    date = parsedate_to_datetime(answer.headers["date"])
    assert abs(date.timestamp() - clock.now()) < 1
    assert answer.headers["content-type"] == "application/json"


async def test_polling_hint(sim, http, item, path, clock):
    """`retry-after: 10` stands on the 200 of an unfinished batch and not on others."""
    created = await http.post(path, json={"requests": [item()]})
    one = f"{path}/{created.json()['id']}"
    assert "retry-after" not in created.headers
    assert (await http.get(one)).headers["retry-after"] == "10"
    clock.advance(100)
    assert "retry-after" not in (await http.get(one)).headers


async def test_both_credential_headers(sim, path):
    """Bearer and x-api-key name the same workspace; none at all is a 401."""
    version = {"anthropic-version": "2026-10-21"}
    async with httpx2.AsyncClient(base_url=sim.url, headers=version, trust_env=False) as plain:
        bearer = await plain.get(path, headers={"authorization": f"Bearer {sim.api_key}"})
        x_api_key = await plain.get(path, headers={"x-api-key": sim.api_key})
        none = await plain.get(path)
    name = "anthropic-workspace-id"
    assert bearer.status_code == x_api_key.status_code == 200
    assert bearer.headers[name] == x_api_key.headers[name]
    assert (none.status_code, none.json()["error"]["type"]) == (401, "authentication_error")


async def test_version_and_betas(http, path):
    """The version is required and must exist; odd betas are refused."""
    for headers in (
        {"anthropic-version": ""},
        {"anthropic-version": "2020-01-01"},
        {"anthropic-beta": "nonsense"},
    ):
        answer = await http.get(path, headers=headers)
        assert (answer.status_code, answer.json()["error"]["type"]) == (
            400,
            "invalid_request_error",
        )
    answer = await http.get(path, headers={"anthropic-beta": "message-batches-2024-09-24"})
    assert answer.status_code == 200


async def test_known_keys_and_shared_workspaces(sim, http, path, item):
    """With `keys` strangers get 401; two keys of one workspace share its batches."""
    sim.world.configure(keys={"one": "acme", "two": "acme", "three": "other"})
    created = await http.post(path, json={"requests": [item()]}, headers={"x-api-key": "one"})
    one = f"{path}/{created.json()['id']}"
    statuses = {
        key: (await http.get(one, headers={"x-api-key": key})).status_code
        for key in ("one", "two", "three", "stranger")
    }
    assert statuses == {"one": 200, "two": 200, "three": 404, "stranger": 401}


async def test_foreign_workspace_header(http, path):
    """A workspace header must name the workspace of the key."""
    own = (await http.get(path)).headers["anthropic-workspace-id"]
    right = await http.get(path, headers={"anthropic-workspace-id": own})
    wrong = await http.get(path, headers={"anthropic-workspace-id": "wrkspc_01other"})
    assert (right.status_code, wrong.status_code) == (200, 403)


async def test_requests_per_minute(sim, http, path, clock):
    """The bucket refuses with retry-after and refills with the world's time."""
    sim.world.configure(rpm=60, burst=2)
    statuses = [(await http.get(path)).status_code for _ in range(3)]
    refused = await http.get(path)
    assert statuses == [200, 200, 429]
    assert refused.json()["error"]["type"] == "rate_limit_error"
    assert refused.headers["retry-after"] == "1"
    assert refused.headers["anthropic-ratelimit-requests-remaining"] == "0"
    clock.advance(1)
    assert (await http.get(path)).status_code == 200


async def test_full_queue(sim, http, path, item, clock):
    """Requests of unfinished batches fill the queue; ended batches leave it."""
    sim.world.configure(max_queued=3)
    two = {"requests": [item("a"), item("b")]}
    assert (await http.post(path, json=two)).status_code == 200
    refused = await http.post(path, json=two)
    assert (refused.status_code, refused.headers["retry-after"]) == (429, "60")
    assert len(sim.world.batches) == 1
    clock.advance(100)
    assert (await http.post(path, json=two)).status_code == 200


async def test_spending(sim, http, path, item):
    """The tier's cap is a 429 without retry-after, the self-set limit a 400."""
    body = {"requests": [item()]}
    sim.world.configure(spend="cap")
    cap = await http.post(path, json=body)
    assert cap.status_code == 429
    assert "retry-after" not in cap.headers
    assert cap.json()["error"]["details"] == {"error_code": "enforced_spend_limit_reached"}
    sim.world.configure(spend="limit")
    limit = await http.post(path, json=body)
    assert limit.status_code == 400
    assert "specified API usage limits" in limit.json()["error"]["message"]
    assert sim.world.batches == {}


@pytest.mark.parametrize("html", [False, True])
async def test_too_large(sim, http, path, item, html):
    """One byte above the limit is a 413, from the API or from the edge."""
    body = orjson.dumps({"requests": [item()]})
    sim.world.configure(max_bytes=len(body), html_413=html)
    assert (await http.post(path, content=body)).status_code == 200
    refused = await http.post(path, content=body + b" ")
    assert refused.status_code == 413
    assert ("<html>" in refused.text) == html
    if not html:
        assert refused.json()["error"]["type"] == "request_too_large"
    assert len(sim.world.batches) == 1


async def test_gzipped_creates(sim, http, path, item):
    """Compressed creates are refused, or taken by switch and measured unpacked."""
    body = gzip.compress(orjson.dumps({"requests": [item("a", "x" * 5000)]}))
    headers = {"content-encoding": "gzip"}
    refused = await http.post(path, content=body, headers=headers)
    assert refused.status_code == 400
    code = refused.json()["error"]["details"]["error_code"]
    assert code == "request_body_encoding_unsupported"
    sim.world.configure(gzip_creates=True)
    assert (await http.post(path, content=body, headers=headers)).status_code == 200
    sim.world.configure(max_bytes=1000)
    assert (await http.post(path, content=body, headers=headers)).status_code == 413
    broken = await http.post(path, content=b"nonsense", headers=headers)
    assert broken.status_code == 400


async def test_log_keeps_no_credentials(sim, http, path, item):
    """The log tells each request, without any key."""
    await http.post(path, json={"requests": [item("a", "q")]})
    await http.get(path, params={"limit": "1"})
    assert [(r.number, r.route, r.method, r.status) for r in sim.requests] == [
        (1, "create", "POST", 200),
        (2, "list", "GET", 200),
    ]
    assert sim.requests[1].query == "limit=1"
    (create,) = sim.creates
    assert create.custom_ids == ("a",)
    assert create.params[0]["messages"] == [{"role": "user", "content": "q"}]
    assert sim.api_key not in repr(sim.requests)


async def test_peaks(sim, http, path):
    """The log knows how many requests were open at once."""
    sim.on("list", Delay(0.02))
    await asyncio.gather(*(http.get(path) for _ in range(4)), http.get(f"{path}/x"))
    assert sim.peak_concurrency("list") == 4
    assert sim.peak_creates == 0
    assert sim.peak_requests >= 4


async def test_lifecycle_of_the_server(path):
    """A simulator can be opened again, says so when closed, and refuses a second opening."""
    sim = Simulator(clock=ManualClock(), settings=WorldSettings())
    with pytest.raises(RuntimeError, match="not open"):
        _ = sim.url
    for _ in range(2):
        async with sim:
            assert sim.url.startswith("http://127.0.0.1:")
            with pytest.raises(RuntimeError, match="already open"):
                await sim.__aenter__()


async def test_no_tasks_left(path):
    """Closing ends hanging requests at once and leaves no task behind."""
    before, arrived = asyncio.all_tasks(), asyncio.Event()

    def act(call):
        if call.number == 2:
            arrived.set()
        return [Hang(), Delay(60)][call.number - 1]

    headers = {"x-api-key": "k", "anthropic-version": "2023-06-01"}
    async with Simulator(hooks=[("list", act)]) as sim:
        async with httpx2.AsyncClient(base_url=sim.url, headers=headers, trust_env=False) as plain:
            calls = [asyncio.create_task(plain.get(path)) for _ in range(2)]
            await arrived.wait()
            await sim.__aexit__(None, None, None)
            for outcome in await asyncio.gather(*calls, return_exceptions=True):
                assert isinstance(outcome, httpx2.TransportError)
        await sim.__aenter__()
    assert asyncio.all_tasks() == before
    assert sim.failures == []


async def test_down(sim, http, path, item):
    """While down the port refuses; afterwards the same world answers under the same URL."""
    created = await http.post(path, json={"requests": [item()]})
    url = sim.url
    async with sim.down():
        with pytest.raises(httpx2.ConnectError):
            await http.get(path)
    assert sim.url == url
    assert (await http.get(f"{path}/{created.json()['id']}")).status_code == 200


async def test_input_tokens_per_minute(sim, http, params, clock):
    """The Messages API can be limited by input tokens, and shows it in its headers."""
    asked = {key: params()[key] for key in ("model", "messages")}
    tokens = (await http.post("/v1/messages/count_tokens", json=asked)).json()["input_tokens"]
    sim.world.configure(message_tpm=tokens)
    first = await http.post("/v1/messages", json=params())
    assert first.headers["anthropic-ratelimit-input-tokens-limit"] == str(tokens)
    assert first.headers["anthropic-ratelimit-input-tokens-remaining"] == "0"
    refused = await http.post("/v1/messages", json=params())
    assert (refused.status_code, refused.headers["retry-after"]) == (429, "60")
    clock.advance(60)
    assert (await http.post("/v1/messages", json=params())).status_code == 200


async def test_direct_calls_can_be_scripted_by_prompt(sim, http, params):
    """A script sees the params of a direct call, and the log keeps them."""
    sim.on(lambda call: call.params and "bad" in str(call.params["messages"]), Error(529))
    statuses = [
        (await http.post("/v1/messages", json=params(text))).status_code for text in ("ok", "bad")
    ]
    assert statuses == [200, 529]
    assert [record.params["messages"][0]["content"] for record in sim.messages] == ["ok", "bad"]


async def test_slow_direct_answers(sim, http, params, clock):
    """A direct answer takes its time on the world's clock."""
    sim.world.configure(message_seconds=(5, 5))
    call = asyncio.create_task(http.post("/v1/messages", json=params()))
    await asyncio.sleep(0.02)
    assert not call.done()
    clock.advance(5)
    assert (await call).status_code == 200
