"""
HTML from Python, with every text escaped unless it is markup already.
"""

from __future__ import annotations

from collections.abc import Iterable
from html import escape
from typing import Final, TypeAlias

#: Elements that hold nothing and have no end tag.
_VOID: Final = frozenset({"br", "hr", "img", "input", "link", "meta"})


class Markup(str):
    """Text that is markup already and is not escaped again."""

    __slots__ = ()


#: What an element may hold: text is escaped, `None` is nothing.
Child: TypeAlias = "str | int | Iterable[Child] | None"


def el(name: str, *children: Child, **attributes: str | int | bool | None) -> Markup:
    """
    Return an element.

    In the names of attributes `_` stands for `-`, and one at the end for nothing (`class_`). `True`
    is an attribute without a value; `None` and `False` leave it out.
    """
    start = f"<{name}{''.join(map(_attribute, attributes.items()))}>"
    return Markup(start if name in _VOID else f"{start}{join(*children)}</{name}>")


def join(*children: Child) -> Markup:
    """Return things one after another."""
    return Markup("".join(map(_child, children)))


def _child(child: Child) -> str:
    if child is None:
        return ""
    if isinstance(child, Markup):
        return child
    if isinstance(child, str | int):
        return escape(str(child))
    return join(*child)


def _attribute(pair: tuple[str, str | int | bool | None]) -> str:
    name, value = pair
    if value is None or value is False:
        return ""
    name = name.rstrip("_").replace("_", "-")
    return f" {name}" if value is True else f' {name}="{escape(str(value))}"'
