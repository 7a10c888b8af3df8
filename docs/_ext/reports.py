"""Directives about the report: `report-fields` from its models, `report-rules` from its rules."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Any

import orjson
from docutils import nodes
from sphinx.util.docutils import SphinxDirective

from batchwright.report.rules import policies
from batchwright.report.schema import made_schema


class ReportFields(SphinxDirective):
    """A section for the report and for each of its parts, with a table of its fields."""

    required_arguments = 1

    def run(self) -> list[nodes.Node]:
        """Return the sections; the argument is the kind of document."""
        schema = orjson.loads(made_schema(self.arguments[0]))
        parts = schema["$defs"]
        return [_part(schema["title"], schema), *(_part(n, parts[n]) for n in _order(schema))]


def _order(schema: Mapping[str, Any]) -> Iterator[str]:
    """Yield the names of the parts in the order in which a reader meets them."""
    seen: list[str] = []
    todo = [schema]
    while todo:
        for value in todo.pop(0)["properties"].values():
            for name in re.findall(r'"#/\$defs/(\w+)"', orjson.dumps(value).decode()):
                if name not in seen:
                    seen.append(name)
                    todo.append(schema["$defs"][name])
    yield from seen


def _part(name: str, schema: Mapping[str, Any]) -> nodes.section:
    section = nodes.section(ids=[nodes.make_id(name)], names=[nodes.fully_normalize_name(name)])
    section += nodes.title("", "", nodes.literal("", name))
    section += nodes.paragraph("", " ".join(schema["description"].split()).replace("`", ""))
    rows = [
        (nodes.literal("", field), _type_of(told), nodes.Text(told.get("description", "")))
        for field, told in schema["properties"].items()
    ]
    section += _table(("field", "type", "meaning"), rows)
    return section


def _type_of(told: Mapping[str, Any]) -> nodes.Node:
    """Return a JSON type as people write it; a part of the report is a link to its table."""
    if "$ref" in told:
        name = told["$ref"].rpartition("/")[2]
        return nodes.reference("", name, refid=nodes.make_id(name))
    return nodes.Text(_written(told)) if not _parts_in(told) else _linked(told)


def _parts_in(told: Mapping[str, Any]) -> list[str]:
    return re.findall(r'"#/\$defs/(\w+)"', orjson.dumps(told).decode())


def _linked(told: Mapping[str, Any]) -> nodes.Node:
    (name,) = _parts_in(told)
    link = nodes.reference("", name, refid=nodes.make_id(name))
    if told.get("type") == "array":
        return nodes.inline("", "", nodes.Text("list of "), link)
    if "anyOf" in told:
        return nodes.inline("", "", link, nodes.Text(" or null"))
    return nodes.inline("", "", nodes.Text("map to "), link)


def _written(told: Mapping[str, Any]) -> str:
    if "anyOf" in told:
        return " or ".join(_written(one) for one in told["anyOf"])
    if "const" in told or "enum" in told:
        return " or ".join(map(str, told.get("enum", [told.get("const")])))
    if told.get("type") == "array":
        return f"list of {_written(told['items'])}"
    if told.get("type") == "object":
        return f"map to {_written(told['additionalProperties'])}"
    return {"date-time": "moment"}.get(told.get("format", ""), str(told.get("type")))


class ReportRules(SphinxDirective):
    """A table of rules for each policy."""

    def run(self) -> list[nodes.Node]:
        """Return the tables, each under its policy."""
        found: list[nodes.Node] = []
        for policy in policies():
            section = nodes.section(ids=[policy.name], names=[policy.name])
            section += nodes.title("", "", nodes.literal("", policy.name))
            section += nodes.paragraph("", policy.about)
            rows = [
                (nodes.literal("", rule.id.partition("/")[2]), nodes.Text(rule.text))
                for rule in policy.rules
            ]
            section += _table(("rule", "what must hold"), rows)
            found.append(section)
        return found


def _table(heads: tuple[str, ...], rows: list[tuple[nodes.Node, ...]]) -> nodes.table:
    group = nodes.tgroup("", cols=len(heads))
    for _ in heads:
        group += nodes.colspec("", colwidth=1)
    head = nodes.row("", *(_cell(nodes.Text(text)) for text in heads))
    group += nodes.thead("", head)
    group += nodes.tbody("", *(nodes.row("", *map(_cell, row)) for row in rows))
    return nodes.table("", group)


def _cell(content: nodes.Node) -> nodes.entry:
    return nodes.entry("", nodes.paragraph("", "", content))


def setup(app: Any) -> dict[str, Any]:
    """Register the directives; called by Sphinx."""
    app.add_directive("report-fields", ReportFields)
    app.add_directive("report-rules", ReportRules)
    return {"parallel_read_safe": True}
