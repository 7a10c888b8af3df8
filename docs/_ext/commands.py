"""The directive `commands`: each command's `--help`, as the command line itself prints it."""

from __future__ import annotations

from typing import Any

import typer
from docutils import nodes
from sphinx.util.docutils import SphinxDirective

from batchwright.cli._app import app as command_line

WIDTH = 96


class Commands(SphinxDirective):
    """A section for every command, with its help text."""

    def run(self) -> list[nodes.Node]:
        """Return the sections."""
        group: Any = typer.main.get_command(command_line)
        with group.make_context("batchwright", [], resilient_parsing=True) as parent:
            return [self._section(name, group.commands[name], parent) for name in group.commands]

    def _section(self, name: str, command: Any, parent: Any) -> nodes.section:
        title = f"batchwright {name}"
        context = command.make_context(name, [], parent=parent, resilient_parsing=True)
        context.terminal_width = context.max_content_width = WIDTH
        text = command.get_help(context)
        section = nodes.section(
            ids=[nodes.make_id(title)], names=[nodes.fully_normalize_name(title)]
        )
        section += nodes.title("", "", nodes.literal("", title))
        section += nodes.literal_block(text, text, language="text")
        return section


def setup(app: Any) -> dict[str, Any]:
    """Register the directive; called by Sphinx."""
    app.add_directive("commands", Commands)
    return {"parallel_read_safe": True}
