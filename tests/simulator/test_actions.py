"""Each scripted fault, as a client sees it."""

from __future__ import annotations

import asyncio
import json

import httpx2
import pytest

from batchwright.simulator import (
    All,
    Chance,
    ChunkSize,
    CutBody,
    Delay,
    Drop,
    Error,
    Gzip,
    Hang,
    Lines,
    ManualClock,
    Mutate,
    NoContentType,
    Raise413,
    Respond,
    Simulator,
    Slow,
)


@pytest.fixture
def ask(http, path, item):
    """Create a batch of three."""

    async def create():
        return await http.post(path, json={"requests": [item(name) for name in "abc"]})

    return create


@pytest.fixture
async def results(ask, path, clock):
    """Path of the results of an ended batch of three."""
    batch = (await ask()).json()
    clock.advance(100)
    return f"{path}/{batch['id']}/results"


async def test_respond(sim, ask):
    """An answer of the test's own stands in for the work."""
    sim.on("create", Respond(502, "<html>bad gateway</html>", {"X-Edge": "1"}), times=1)
    answer = await ask()
    assert (answer.status_code, answer.text) == (502, "<html>bad gateway</html>")
    assert answer.headers["x-edge"] == "1"
    assert answer.headers["content-type"] == "text/html"
    assert (await ask()).status_code == 200


async def test_error(sim, ask):
    """An API error carries type, code, retry-after, and nothing was created."""
    sim.on("create", [Error(429, error_code="ramp_limit_exceeded", retry_after=7), None])
    answer = await ask()
    assert answer.status_code == 429
    assert answer.headers["retry-after"] == "7"
    error = answer.json()["error"]
    assert (error["type"], error["details"]["error_code"]) == (
        "rate_limit_error",
        "ramp_limit_exceeded",
    )
    assert sim.world.batches == {}
    assert (await ask()).status_code == 200


async def test_error_after_the_work(sim, ask):
    """The batch exists although the answer says 504."""
    sim.on("create", Error(504, after=True))
    assert (await ask()).status_code == 504
    assert len(sim.world.batches) == 1
    assert sim.creates[0].registered


@pytest.mark.parametrize("reset", [False, True])
@pytest.mark.parametrize(("when", "made"), [("before", 0), ("after", 1)])
async def test_drop(sim, ask, when, made, reset):
    """The connection breaks before or after the work; the log knows what was delivered."""
    sim.on("create", Drop(when, reset=reset))
    with pytest.raises(httpx2.TransportError):
        await ask()
    assert len(sim.world.batches) == made
    (create,) = sim.creates
    assert (create.registered, create.delivered, create.status) == (made == 1, False, None)


@pytest.mark.parametrize(("after", "made"), [(True, 1), (False, 0)])
async def test_hang(sim, http, ask, after, made):
    """Silence until the client's timeout; the batch may exist all the same."""
    sim.on("create", Hang(after=after))
    http.timeout = httpx2.Timeout(0.05)
    with pytest.raises(httpx2.ReadTimeout):
        await ask()
    assert len(sim.world.batches) == made


async def test_delay(sim, ask):
    """A delay comes before what follows it."""
    sim.on("create", Delay(0.02, then=Error(500)))
    loop = asyncio.get_running_loop()
    began = loop.time()
    assert (await ask()).status_code == 500
    assert loop.time() - began >= 0.015


async def test_mutate(sim, http, ask):
    """A function changes the normal answer: body, status, headers."""

    def change(reply):
        reply.body["processing_status"] = "paused"
        reply.headers["x-odd"] = "1"

    sim.on("create", Mutate(change))
    answer = await ask()
    assert answer.json()["processing_status"] == "paused"
    assert answer.headers["x-odd"] == "1"
    assert int(answer.headers["content-length"]) == len(answer.content)


@pytest.mark.parametrize("html", [True, False])
async def test_413(sim, ask, html):
    """The edge's 413 is a page, the API's an envelope."""
    sim.on("create", Raise413(html=html))
    answer = await ask()
    assert answer.status_code == 413
    assert answer.text.startswith("<html>") == html


async def read_some(http, url):
    """Return what arrives of a body, and the error that ended it."""
    got = bytearray()
    try:
        async with http.stream("GET", url) as answer:
            async for part in answer.aiter_raw():
                got += part
    except httpx2.TransportError as error:
        return bytes(got), error
    return bytes(got), None


@pytest.mark.parametrize("framing", ["chunked", "length"])
async def test_cut_in_a_line(sim, http, results, framing):
    """A framed body that breaks off inside the second line is noticed."""
    whole = (await http.get(results)).content
    sim.on("results", CutBody(after_lines=1, framing=framing))
    got, error = await read_some(http, results)
    assert isinstance(error, httpx2.RemoteProtocolError)
    assert whole.startswith(got)
    assert got.count(b"\n") == 1
    assert not got.endswith(b"\n")


async def test_silent_cut_between_lines(sim, http, results):
    """A body without framing that ends between two lines looks whole."""
    sim.on("results", CutBody(after_lines=2, mid_line=False, framing="close"))
    got, error = await read_some(http, results)
    assert error is None
    assert len([json.loads(line) for line in got.splitlines()]) == 2


async def test_cut_after_bytes(sim, http, results):
    """A body can break off after any number of bytes, with a reset as well."""
    whole = (await http.get(results)).content
    sim.on("results", [CutBody(after_bytes=17), CutBody(after_bytes=17, reset=True)])
    got, error = await read_some(http, results)
    assert got == whole[:17]
    assert error is not None
    got, error = await read_some(http, results)
    assert whole.startswith(got)
    assert error is not None


async def test_cut_of_json(sim, ask):
    """A create whose answer breaks off has created its batch."""
    sim.on("create", CutBody(after_bytes=40, framing="close"))
    answer = await ask()
    with pytest.raises(json.JSONDecodeError):
        answer.json()
    assert len(sim.world.batches) == 1
    assert not sim.creates[0].delivered


async def test_chunks(sim, http, results):
    """Odd chunk sizes and compression change the transport, not the content."""
    whole = (await http.get(results)).content
    sim.on("results", [ChunkSize(7), Gzip(), All(Gzip(), ChunkSize(3)), Slow(0.0001, 100)])
    for encoding in (None, "gzip", "gzip", None):
        answer = await http.get(results)
        assert answer.content == whole
        assert answer.headers.get("content-encoding") == encoding
        assert answer.headers["transfer-encoding"] == "chunked"


async def test_no_content_type(sim, http, results):
    """Results without a content type, as before August 2026."""
    sim.on("results", NoContentType())
    assert "content-type" not in (await http.get(results)).headers


async def test_lines(sim, http, results):
    """Result lines can be replaced, as bytes, as objects, or by a function of the real ones."""
    odd = [b'{"custom_id":"a"}\r\n', {"custom_id": "b"}, b"not json"]
    sim.on("results", [Lines(odd), Lines(lambda lines: lines[1:] + lines[1:])])
    got = (await http.get(results)).content
    assert got == b'{"custom_id":"a"}\r\n{"custom_id":"b"}\nnot json'
    assert len((await http.get(results)).content.splitlines()) == 4


async def test_callable_action_and_call(sim, http, ask, path):
    """A callable sees the call before any work, and may leave it alone."""
    seen = []

    def act(call):
        seen.append(call)
        return Error(500) if call.route == "create" and call.number == 2 else None

    sim.on("*", act)
    first, second = await ask(), await ask()
    assert (first.status_code, second.status_code) == (200, 500)
    one = f"{path}/{first.json()['id']}"
    await http.get(one)
    await http.get(one)
    assert seen[0].custom_ids == ("a", "b", "c")
    assert seen[0].body_size > 0
    assert [(call.route, call.batch_number) for call in seen[2:]] == [
        ("retrieve", 1),
        ("retrieve", 2),
    ]
    assert seen[2].batch_id == first.json()["id"]
    assert sim.api_key == seen[0].api_key
    assert sim.api_key not in repr(seen)


async def test_predicates_order_and_removal(sim, ask):
    """The first rule with something to say decides; rules can be taken out."""
    first = sim.on(lambda call: "a" in call.custom_ids, Error(500))
    sim.on("create", Error(529))
    assert (await ask()).status_code == 500
    assert first.hits == 1
    sim.off(first)
    assert (await ask()).status_code == 529
    sim.off()
    assert (await ask()).status_code == 200


def test_unknown_route():
    """A misspelt route is refused at once."""
    with pytest.raises(ValueError, match="no route 'creates'"):
        Simulator().on("creates", Error(500))


async def test_chance(path):
    """Random faults strike their share of the calls, the same ones for the same seed."""
    headers = {"x-api-key": "k", "anthropic-version": "2023-06-01"}

    async def run(seed):
        faults = [Chance("list", Error(529), 0.3)]
        async with (
            Simulator(seed=seed, clock=ManualClock(), faults=faults) as sim,
            httpx2.AsyncClient(base_url=sim.url, headers=headers, trust_env=False) as plain,
        ):
            return [(await plain.get(path)).status_code for _ in range(40)]

    one, again, other = await run(1), await run(1), await run(2)
    assert one == again != other
    assert 3 < one.count(529) < 25


async def test_failing_hook_is_told(sim, ask):
    """A hook that raises gives a 500, and the error can be read."""
    sim.on("create", lambda call: 1 / 0)
    answer = await ask()
    assert answer.status_code == 500
    (failure,) = sim.failures
    assert isinstance(failure, ZeroDivisionError)
    sim.failures.clear()


async def test_client_that_leaves_during_upload(sim):
    """An upload that breaks off creates nothing and disturbs nobody."""
    host, port = sim.url.removeprefix("http://").split(":")
    _, writer = await asyncio.open_connection(host, int(port))
    writer.write(b"POST /v1/messages/batches HTTP/1.1\r\nhost: x\r\ncontent-length: 99\r\n\r\n{")
    await writer.drain()
    for _ in range(1000):
        if sim.requests:
            break
        await asyncio.sleep(0.001)
    writer.close()
    await writer.wait_closed()
    await asyncio.sleep(0.005)
    assert sim.world.batches == {}
    assert sim.creates[0].status is None
