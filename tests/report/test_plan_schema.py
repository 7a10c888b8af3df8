"""The shipped JSON Schema of a plan is the one of its model, and plans match it."""

from __future__ import annotations

import importlib.resources
import json

import jsonschema
from tests.support import items, params, runner_on

from batchwright.report import PlanReport
from batchwright.report.model import shape

SHIPPED = importlib.resources.files("batchwright.report") / "plan.schema.json"


def test_the_shipped_schema_is_in_step():
    """Whoever changes the model writes the file anew: it is what `shape(PlanReport)` returns."""
    assert json.loads(SHIPPED.read_text("utf-8")) == shape(PlanReport)


async def test_plans_match_the_schema(sim):
    """A plan with something of everything in it is what the schema says."""
    asked = [*items(3), ("doc-0", params("?")), ("bad", {}), {"id": "none"}]
    async with runner_on(sim) as runner:
        plan = await runner.plan(asked)
    schema = json.loads(SHIPPED.read_text("utf-8"))
    document = json.loads(plan.model_dump_json())
    jsonschema.Draft202012Validator(schema).validate(document)

    assert PlanReport.model_validate(document) == plan
