"""
The validator tried on itself: documents that are in order, and each of them broken in one place.

Fixtures and mutations are data: `fixtures/*.json` are documents, `mutations/*.json` are lists of
changes, each with the rule that must refuse it and, where several rules do, with the place where.
"""

from __future__ import annotations

import copy
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from importlib.resources import files
from typing import Any, Final

import orjson

from batchwright.report.findings import Finding, place_of
from batchwright.report.rules import rules
from batchwright.report.validation import validate

_PACKAGE: Final = "batchwright.report"


@dataclass(frozen=True, slots=True, kw_only=True)
class Case:
    """
    One document and what the validator said to it.

    Attributes:
        name: Of the fixture, and of what was changed in it.
        rule: The rule that must refuse it; `None`: it is in order.
        place: Where it must find the breach; `None`: anywhere.
        findings: What was found.
    """

    name: str
    rule: str | None
    findings: Sequence[Finding]
    place: str | None = None

    @property
    def passed(self) -> bool:
        """Whether the validator said what it must."""
        if self.rule is None:
            return not self.findings
        return any(
            finding.rule == self.rule and self.place in {None, finding.place}
            for finding in self.findings
        )

    def __str__(self) -> str:
        where = f" at {self.place}" if self.place else ""
        wanted = f"to be refused by {self.rule}{where}" if self.rule else "to be accepted"
        said = "; ".join(map(str, self.findings[:3])) or "nothing was found"
        return f"{self.name}: was {wanted}, but: {said}"


def self_test() -> Iterator[Case]:
    """
    Yield every fixture, then every mutation, each judged.

    Raises:
        ValueError: A mutation does not fit its fixture, or names a rule that does not exist.
    """
    fixtures = {name: orjson.loads(data) for name, data in _files("fixtures")}
    for name, document in fixtures.items():
        yield Case(name=name, rule=None, findings=validate(orjson.dumps(document)))
    for _, data in _files("mutations"):
        for mutation in orjson.loads(data):
            yield _mutated(fixtures, mutation)


def _files(folder: str) -> list[tuple[str, bytes]]:
    found = [path for path in files(_PACKAGE).joinpath(folder).iterdir() if path.is_file()]
    return [
        (path.name.removesuffix(".json"), path.read_bytes())
        for path in sorted(found, key=lambda path: path.name)
    ]


def _mutated(fixtures: dict[str, Any], mutation: dict[str, Any]) -> Case:
    name = f"{mutation['fixture']}, {mutation['name']}"
    if mutation["rule"] not in rules():
        raise ValueError(f"{name}: there is no rule {mutation['rule']}")
    whole = fixtures[mutation["fixture"]]
    document = copy.deepcopy(whole)
    try:
        _change(document, mutation)
    except (LookupError, TypeError, AttributeError) as error:
        where = place_of(mutation["at"])
        raise ValueError(f"{name}: {where} cannot be changed so: {error!r}") from None
    if document == whole:
        raise ValueError(f"{name}: it changes nothing")
    return Case(
        name=name,
        rule=mutation["rule"],
        findings=validate(orjson.dumps(document)),
        place=mutation.get("place"),
    )


def _change(document: Any, mutation: dict[str, Any]) -> None:
    """Change one place: `set`, `add` to a number, `append` to a list, `repeat` or `drop`."""
    *path, last = mutation["at"]
    parent = document
    for part in path:
        parent = parent[part]
    match mutation:
        case {"set": value}:
            parent[last] = value
        case {"add": number}:
            parent[last] += number
        case {"append": value}:
            parent[last].append(value)
        case {"repeat": True}:
            parent.insert(last, copy.deepcopy(parent[last]))
        case {"drop": True}:
            del parent[last]
        case _:
            raise ValueError(f"{mutation['name']}: says no change that is known")
