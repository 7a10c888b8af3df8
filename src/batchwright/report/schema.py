"""
The shapes of reports as JSON Schema, for readers in any language; shipped as files.
"""

from __future__ import annotations

from importlib.resources import files
from typing import Any, Final

import orjson

from batchwright.report.model import shape
from batchwright.report.validation import KINDS

#: Names of the shipped files, by kind of document.
SCHEMA_FILES: Final = {kind: f"{kind}-report.schema.json" for kind in KINDS}


def shipped_schema(kind: str) -> bytes:
    """Return the JSON Schema of one kind of document as the package ships it."""
    return files("batchwright.report").joinpath("schemas", SCHEMA_FILES[kind]).read_bytes()


def made_schema(kind: str) -> bytes:
    """Return the JSON Schema as the model makes it now; the shipped file must be the same."""
    model = KINDS[kind].model
    schema: dict[str, Any] = {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        **shape(model),
    }
    return orjson.dumps(schema, option=orjson.OPT_INDENT_2) + b"\n"
