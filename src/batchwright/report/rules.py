"""
The rules that reports and plans are held to: data, one small file for each policy.
"""

from __future__ import annotations

import functools
from collections.abc import Mapping
from dataclasses import dataclass
from importlib.resources import files
from types import MappingProxyType
from typing import Final

from batchwright._json import load_json

#: The policies, in the order in which they are told.
POLICIES: Final = (
    "message-batch-orchestration-contract",
    "workload-policy",
    "custom-id-policy",
    "lifecycle-policy",
    "retry-fragmentation-policy",
    "evidence-policy",
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Rule:
    """
    One rule.

    Attributes:
        id: `policy/rule`.
        text: What must hold, in one sentence.
    """

    id: str
    text: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Policy:
    """Rules about one thing. `about` says in one sentence which."""

    name: str
    about: str
    rules: tuple[Rule, ...]


@functools.cache
def policies() -> tuple[Policy, ...]:
    """Return all policies as the package ships them."""
    return tuple(_read(name) for name in POLICIES)


@functools.cache
def rules() -> Mapping[str, Rule]:
    """Return all rules by their id."""
    found = {rule.id: rule for policy in policies() for rule in policy.rules}
    return MappingProxyType(found)


def _read(name: str) -> Policy:
    data = load_json(files("batchwright.report").joinpath("policies", f"{name}.json").read_bytes())
    return Policy(
        name=data["policy"],
        about=data["about"],
        rules=tuple(Rule(id=rule["id"], text=rule["rule"]) for rule in data["rules"]),
    )
