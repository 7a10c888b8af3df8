"""Every body the simulator sends, against the API's own OpenAPI schemas (May 2026)."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from jsonschema import Draft202012Validator
from referencing import Registry, Resource
from referencing.jsonschema import DRAFT202012

from batchwright.simulator import errored, expire

SPEC = Path(__file__).parent.parent / "data" / "messages_batches_subset_2026-05.json"


@pytest.fixture(scope="module")
def check():
    """Return a function that validates a value against a named schema."""
    spec = json.loads(SPEC.read_text())
    resource = Resource.from_contents(spec, default_specification=DRAFT202012)
    registry = Registry().with_resource("urn:api", resource)

    def validate(name, value):
        schema = {"$ref": f"urn:api#/components/schemas/{name}"}
        Draft202012Validator(schema, registry=registry).validate(value)

    return validate


async def test_batch_in_each_state(check, http, item, path, clock):
    """Create, retrieve in every state, cancel, list and delete answer as the schemas say."""
    batch = (await http.post(path, json={"requests": [item()]})).json()
    check("MessageBatch", batch)
    one = f"{path}/{batch['id']}"
    check("MessageBatch", (await http.get(one)).json())
    check("MessageBatch", (await http.post(f"{one}/cancel")).json())
    check("MessageBatch", (await http.get(one)).json())
    clock.advance(10)
    check("MessageBatch", (await http.get(one)).json())
    check("ListResponse_MessageBatch_", (await http.get(path)).json())
    clock.advance(30 * 86_400)
    archived = (await http.get(one)).json()
    assert archived["archived_at"]
    check("MessageBatch", archived)
    check("DeleteMessageBatchResponse", (await http.delete(one)).json())
    check("ListResponse_MessageBatch_", (await http.get(path)).json())


async def test_each_kind_of_line(check, sim, http, item, path, clock):
    """Succeeded, errored (by params, by fate), canceled and expired lines match the schema."""
    sim.fate_for("expired", expire())
    sim.fate_for("errored", errored("overloaded_error", "busy"))
    faulty = {"custom_id": "faulty", "params": {}}
    ask = [item("ok"), item("expired"), item("errored"), item("refused", "[[sim:refuse]]"), faulty]
    batch = (await http.post(path, json={"requests": ask})).json()
    cancel = (await http.post(path, json={"requests": [item(f"c{n}") for n in range(9)]})).json()
    await http.post(f"{path}/{cancel['id']}/cancel")
    clock.advance(100)
    kinds = set()
    for one in (batch, cancel):
        answer = await http.get(f"{path}/{one['id']}/results")
        for line in map(json.loads, answer.content.splitlines()):
            check("MessageBatchIndividualResponse", line)
            kinds.add(line["result"]["type"])
    assert kinds == {"succeeded", "errored", "canceled", "expired"}


async def test_errors(check, http, path):
    """Refusals come in the API's envelope, with the request id of the header."""
    for answer in (
        await http.post(path, json={"requests": []}),
        await http.get(f"{path}/msgbatch_nope"),
        await http.get(path, headers={"x-api-key": ""}),
        await http.get(path, headers={"anthropic-version": ""}),
        await http.get("/v1/nothing"),
    ):
        assert answer.status_code in (400, 401, 404)
        check("ErrorResponse", answer.json())
        assert answer.json()["request_id"] == answer.headers["request-id"]


async def test_direct_answers(check, http, params):
    """The Messages API and the token count match their schemas."""
    check("Message", (await http.post("/v1/messages", json=params())).json())
    asked = {key: params()[key] for key in ("model", "messages")}
    count = await http.post("/v1/messages/count_tokens", json=asked)
    check("CountMessageTokensResponse", count.json())
    refused = await http.post("/v1/messages/count_tokens", json=params())
    assert refused.status_code == 400
    assert "max_tokens: Extra inputs are not permitted" in refused.text
