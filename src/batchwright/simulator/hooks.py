"""The script of a simulated server: which calls get which actions."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from batchwright.simulator._seeded import fraction
from batchwright.simulator.actions import Action
from batchwright.simulator.world import World

ROUTES = (
    "create",
    "list",
    "retrieve",
    "cancel",
    "delete",
    "results",
    "models",
    "message",
    "count_tokens",
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Call:
    """One call as a script sees it, before any work is done.

    Attributes:
        route: One of `ROUTES`.
        method: HTTP method.
        path: Path without the query.
        query: The query's parameters.
        headers: Names in lower case, credentials left out.
        api_key: The credential; never printed.
        batch_id: The id in the path, or None.
        number: Which call of this route it is, from 1.
        batch_number: Which call of this route for this batch it is, from 1.
        custom_ids: Of a create, as received.
        params: Of a direct call (`message`, `count_tokens`), as received.
        body_size: Bytes of the body as received.
        world: For scripts that look at, or change, the server's state.
    """

    route: str
    method: str
    path: str
    query: Mapping[str, str]
    headers: Mapping[str, str]
    api_key: str | None = field(repr=False)
    batch_id: str | None
    number: int
    batch_number: int
    custom_ids: tuple[str, ...] = field(repr=False)
    params: Mapping[str, Any] | None = field(repr=False)
    body_size: int
    world: World = field(repr=False)


Where = str | Callable[[Call], bool]
What = Action | Sequence[Action | None] | Callable[[Call], Action | None]
Hook = tuple[Where, What]


@dataclass(frozen=True, slots=True)
class Chance:
    """A fault that strikes a share of the calls, drawn from the seed.

    Attributes:
        where: A route, `"*"`, or a predicate on the call.
        action: What happens.
        rate: Share of the calls, 0 to 1.
    """

    where: Where
    action: Action
    rate: float


@dataclass(slots=True, eq=False)
class Rule:
    """One entry of the script; `hits` counts the calls it has acted on."""

    where: Where
    what: What
    times: int | None = None
    hits: int = 0
    _turn: int = 0

    def ask(self, call: Call) -> tuple[bool, Action | None]:
        """Say whether this rule has the say on a call, and what is to be done."""
        if not _matches(self.where, call) or self.times == self.hits:
            return False, None
        if isinstance(self.what, Sequence):
            return self._take_turn(self.what)
        action = self.what(call) if callable(self.what) else self.what
        if action is None:
            return False, None
        self.hits += 1
        return True, action

    def _take_turn(self, turns: Sequence[Action | None]) -> tuple[bool, Action | None]:
        if self._turn >= len(turns):
            return False, None
        action = turns[self._turn]
        self._turn += 1
        self.hits += action is not None
        return True, action


class Script:
    """All rules of a server; the first that has something to say decides."""

    def __init__(
        self, seed: int = 0, hooks: Iterable[Hook] = (), faults: Iterable[Chance] = ()
    ) -> None:
        self._seed = seed
        self._faults = tuple(faults)
        self._rules: list[Rule] = []
        for where, what in hooks:
            self.on(where, what)

    def on(self, where: Where, what: What, times: int | None = None) -> Rule:
        """Add a rule; see `Simulator.on`."""
        if isinstance(where, str) and where != "*" and where not in ROUTES:
            raise ValueError(f"no route {where!r}; there are '*', {', '.join(ROUTES)}")
        rule = Rule(where, what, times)
        self._rules.append(rule)
        return rule

    def remove(self, rule: Rule) -> None:
        """Take a rule out; one that is already out is ignored."""
        self._rules = [other for other in self._rules if other is not rule]

    def clear(self) -> None:
        """Take all rules and random faults out: the server behaves from now on."""
        self._rules.clear()
        self._faults = ()

    def decide(self, call: Call) -> Action | None:
        """Return what is to be done with a call; None is the normal answer."""
        for rule in list(self._rules):
            decided, action = rule.ask(call)
            if decided:
                return action
        return self._draw(call)

    def _draw(self, call: Call) -> Action | None:
        for place, fault in enumerate(self._faults):
            names = (self._seed, "fault", place, call.route, call.number)
            if _matches(fault.where, call) and fraction(*names) < fault.rate:
                return fault.action
        return None


def _matches(where: Where, call: Call) -> bool:
    if isinstance(where, str):
        return where in ("*", call.route)
    return where(call)
