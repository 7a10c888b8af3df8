"""The HTTP face: an ASGI application around the world."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Mapping, MutableMapping
from typing import Any

from batchwright.simulator._time import http_date
from batchwright.simulator.actions import flatten
from batchwright.simulator.endpoints import Work, prepare
from batchwright.simulator.exchange import ClientGone, Exchange
from batchwright.simulator.faults import after_work, before_work, too_large
from batchwright.simulator.hooks import Call, Script
from batchwright.simulator.problems import ApiProblem
from batchwright.simulator.replies import Reply
from batchwright.simulator.traffic import TrafficLog
from batchwright.simulator.world import World

logger: logging.Logger = logging.getLogger("batchwright.simulator")


class Application:
    """The simulated API as an ASGI application.

    Args:
        world: The state behind it.
        script: Which calls get something else than the normal answer.
        log: Where each request is written down.
    """

    def __init__(self, world: World, script: Script, log: TrafficLog) -> None:
        self.world = world
        self.script = script
        self.log = log
        #: Errors of the simulator itself; each was answered with a 500.
        self.failures: list[Exception] = []

    async def __call__(
        self,
        scope: MutableMapping[str, Any],
        receive: Callable[[], Awaitable[Mapping[str, Any]]],
        send: Callable[[dict[str, Any]], Awaitable[None]],
    ) -> None:
        """Serve one request."""
        assert scope["type"] == "http", "lifespan and websockets are switched off"
        number = len(self.log.records) + 1
        exchange = Exchange(scope, receive, send, number, self.world.seed)
        self.log.open(exchange.record(self.world.now()))
        try:
            await self._serve(exchange)
        except (ClientGone, asyncio.CancelledError):
            # A cancel comes only from the server's own end; uvicorn would log it as a failure.
            await exchange.wire.close(reset=False)
        finally:
            self.log.close(number)

    async def _serve(self, exchange: Exchange) -> None:
        try:
            reply = await self._reply(exchange)
        except ClientGone:
            raise
        except Exception as error:
            logger.exception("the simulator failed on %s %s", exchange.method, exchange.path)
            self.failures.append(error)
            reply = exchange.problem(ApiProblem(500, "api_error", f"simulator: {error!r}"))
        await self._send(exchange, reply)

    async def _reply(self, exchange: Exchange) -> Reply:
        work = await prepare(self.world, exchange)
        self.log.update(
            exchange.number,
            body_size=exchange.body_size,
            custom_ids=work.custom_ids,
            workspace=work.access.workspace if work.access else None,
        )
        if exchange.route == "message":
            self.log.update(exchange.number, params=work.params)
        actions = flatten(self.script.decide(self._call(exchange, work)))
        reply = await before_work(actions, exchange)
        if reply is None:
            reply = await self._perform(exchange, work)
            reply = await after_work(actions, reply, exchange)
        return self._dress(exchange, work, reply)

    def _call(self, exchange: Exchange, work: Work) -> Call:
        number, batch_number = self.log.count_call(exchange.route, exchange.batch_id)
        return Call(
            route=exchange.route,
            method=exchange.method,
            path=exchange.path,
            query=exchange.query,
            headers=exchange.public_headers,
            api_key=exchange.api_key,
            batch_id=exchange.batch_id,
            number=number,
            batch_number=batch_number,
            custom_ids=work.custom_ids,
            params=work.params,
            body_size=exchange.body_size,
            world=self.world,
        )

    async def _perform(self, exchange: Exchange, work: Work) -> Reply:
        try:
            reply = await work.perform()
        except ApiProblem as problem:
            if problem.status == 413 and self.world.settings.html_413:
                return too_large(exchange, html=True)
            return exchange.problem(problem)
        if exchange.route == "create":
            params = work.batch_params() if self.world.settings.keep_bodies else ()
            created = reply.body["id"]
            self.log.update(exchange.number, batch_id=created, params=params, registered=True)
        return reply

    def _dress(self, exchange: Exchange, work: Work, reply: Reply) -> Reply:
        """Put the headers on that every answer carries; those already there stay."""
        standing = {
            "date": http_date(self.world.now()),
            "server": "batchwright-simulator",
            "request-id": exchange.request_id,
        }
        if work.access is not None:
            standing.update(self.world.answer_headers(work.access, work.family))
        reply.headers = {**standing, **reply.headers}
        return reply

    async def _send(self, exchange: Exchange, reply: Reply) -> None:
        self.log.update(exchange.number, status=reply.status)
        await exchange.send(reply)
        self.log.update(exchange.number, delivered=reply.cut is None and not exchange.wire.lost)
