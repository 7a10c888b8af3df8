"""The endpoints: what a request asks for, made ready first and carried out later.

The two steps lie apart so that a script can look at a create (its custom ids, its size) and
then decide whether the work is done at all.
"""

from __future__ import annotations

import zlib
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from typing import Any

from batchwright.simulator._seeded import between
from batchwright.simulator._time import Budget
from batchwright.simulator.access import Access
from batchwright.simulator.catalog import MODELS, Model, find_model
from batchwright.simulator.direct import count_tokens, parse_params, stream_events
from batchwright.simulator.draft import Draft
from batchwright.simulator.envelope import read_requests
from batchwright.simulator.exchange import Exchange
from batchwright.simulator.problems import ApiProblem, invalid, not_found
from batchwright.simulator.replies import Reply, json_reply
from batchwright.simulator.world import World

Perform = Callable[[], Awaitable[Reply]]
Params = Mapping[str, Any]
_FAMILY = {"message": "messages", "count_tokens": "messages", "models": "messages"}


@dataclass(slots=True, kw_only=True)
class Work:
    """A request that is ready to be carried out.

    Attributes:
        perform: Does the work once and returns the answer, or raises an `ApiProblem`.
        access: Who asks; None when not let in.
        family: Which rate limit it counts against.
        draft: Of a create.
        params: Of a direct call.
    """

    perform: Perform
    access: Access | None
    family: str
    draft: Draft | None = None
    params: Mapping[str, Any] | None = None

    @property
    def custom_ids(self) -> tuple[str, ...]:
        """The custom ids of a create, as received."""
        return tuple(r.custom_id for r in self.draft.requests) if self.draft else ()

    def batch_params(self) -> tuple[Mapping[str, Any], ...]:
        """Return the params of a create, if the world keeps bodies."""
        return tuple(r.params or {} for r in self.draft.requests) if self.draft else ()


async def prepare(world: World, exchange: Exchange) -> Work:
    """Read a request and make its work ready; refusals are told by `perform`."""
    family = _FAMILY.get(exchange.route, "batches")
    body = await exchange.read_body(_most(world, exchange.route))
    access: Access | None = None
    draft: Draft | None = None
    params: dict[str, Any] = {}
    try:
        _check_size(world, exchange)
        access = world.admit(exchange.headers)
        if exchange.route == "create":
            draft = await _read_draft(world, access, exchange, body)
        elif exchange.route in ("message", "count_tokens"):
            params = parse_params(body)
        body.clear()
    except ApiProblem as problem:
        return Work(perform=_refusal(problem), access=access, family=family)
    let_in = access

    async def perform() -> Reply:
        world.meter(let_in, family)
        if draft is not None:
            batch = world.register(let_in, draft)
            return json_reply(batch.public(world.now(), exchange.base_url))
        return await _ENDPOINTS[exchange.route](world, exchange, let_in, params)

    return Work(perform=perform, access=access, family=family, draft=draft, params=params or None)


def _most(world: World, route: str) -> int:
    settings = world.settings
    return settings.max_bytes if route == "create" else settings.max_message_bytes


def _check_size(world: World, exchange: Exchange) -> None:
    if exchange.body_size > _most(world, exchange.route):
        raise ApiProblem(413, "request_too_large", "Request exceeds the maximum size")


def _refusal(problem: ApiProblem) -> Perform:
    async def refuse() -> Reply:
        raise problem

    return refuse


async def _read_draft(
    world: World, access: Access, exchange: Exchange, body: bytearray
) -> Draft | None:
    draft = world.draft(access)
    budget = Budget()
    for request in read_requests(_decoded(world, exchange, body)):
        draft.add(request)
        await budget.breathe()
    return draft


def _decoded(world: World, exchange: Exchange, body: bytearray) -> bytes | bytearray:
    encoding = exchange.headers.get("content-encoding", "identity")
    if encoding == "identity":
        return body
    if encoding != "gzip" or not world.settings.gzip_creates:
        raise invalid(
            f"Request body encoding `{encoding}` is not supported.",
            error_code="request_body_encoding_unsupported",
        )
    return _unzipped(body, world.settings.max_bytes)


def _unzipped(body: bytearray, most: int) -> bytes:
    unpack = zlib.decompressobj(wbits=31)
    try:
        data = unpack.decompress(body, most)
    except zlib.error:
        code = "request_body_encoding_invalid"
        raise invalid("The request body is not valid gzip.", error_code=code) from None
    if unpack.unconsumed_tail:
        code = "request_body_too_large_after_decoding"
        message = "Request exceeds the maximum size"
        raise ApiProblem(413, "request_too_large", message, error_code=code)
    return data


# --- one function for each route ---------------------------------------------------------


async def _list(world: World, exchange: Exchange, access: Access, _: Params) -> Reply:
    return json_reply(world.list(access, exchange.query, exchange.base_url))


async def _retrieve(world: World, exchange: Exchange, access: Access, _: Params) -> Reply:
    batch = world.find(access, exchange.batch_id or "")
    reply = json_reply(batch.public(world.now(), exchange.base_url))
    hint = world.settings.poll_hint
    if hint is not None and reply.body["processing_status"] != "ended":
        reply.headers["retry-after"] = f"{hint:g}"
    return reply


async def _cancel(world: World, exchange: Exchange, access: Access, _: Params) -> Reply:
    batch = world.cancel(access, exchange.batch_id or "")
    return json_reply(batch.public(world.now(), exchange.base_url))


async def _delete(world: World, exchange: Exchange, access: Access, _: Params) -> Reply:
    return json_reply(world.delete(access, exchange.batch_id or ""))


async def _results(world: World, exchange: Exchange, access: Access, _: Params) -> Reply:
    lines = world.results(access, exchange.batch_id or "")
    return Reply(headers={"content-type": "application/x-jsonl"}, lines=lines)


async def _models(world: World, exchange: Exchange, access: Access, _: Params) -> Reply:
    del access
    name = exchange.batch_id
    if name is not None:
        model = find_model(name)
        if model is None and name in world.settings.models:
            model = Model(id=name, alias=name)
        if model is None:
            raise not_found(f"model: {name}")
        return json_reply(model.public())
    data = [model.public() for model in MODELS]
    ends = {"first_id": data[0]["id"], "last_id": data[-1]["id"]}
    return json_reply({"data": data, "has_more": False, **ends})


async def _message(world: World, exchange: Exchange, access: Access, params: Params) -> Reply:
    answer = world.answer(access, params)
    low, high = world.settings.message_seconds
    await world.clock.sleep(between(low, high, world.seed, exchange.number, "direct"))
    if not params.get("stream"):
        return json_reply(answer)
    headers = {"content-type": "text/event-stream; charset=utf-8", "cache-control": "no-cache"}
    return Reply(headers=headers, lines=stream_events(answer), gather=False)


async def _count_tokens(world: World, exchange: Exchange, access: Access, params: Params) -> Reply:
    del world, exchange, access
    return json_reply(count_tokens(params))


async def _unknown(world: World, exchange: Exchange, access: Access, _: Params) -> Reply:
    del world, access
    raise not_found(f"Not found: {exchange.method} {exchange.path}")


_ENDPOINTS: dict[str, Callable[[World, Exchange, Access, Params], Awaitable[Reply]]] = {
    "list": _list,
    "retrieve": _retrieve,
    "cancel": _cancel,
    "delete": _delete,
    "results": _results,
    "models": _models,
    "message": _message,
    "count_tokens": _count_tokens,
    "unknown": _unknown,
}
