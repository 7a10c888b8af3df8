"""The validator: reports that are in order pass, and each broken one is refused by its rule."""

from __future__ import annotations

import json
from importlib.resources import files
from pathlib import Path

import jsonschema
import pytest

from batchwright.report.rules import POLICIES, policies, rules
from batchwright.report.schema import SCHEMA_FILES, made_schema, shipped_schema
from batchwright.report.selftest import Case, self_test
from batchwright.report.validation import validate

CASES = list(self_test())
SHIPPED = sorted(files("batchwright.report").joinpath("fixtures").iterdir(), key=lambda f: f.name)


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_the_self_test(case: Case):
    """R31: Every fixture is accepted, every single mutation refused by the rule that owns it."""
    assert case.passed, str(case)


def test_the_self_test_is_broad():
    """R31: There are at least 40 mutations, and every rule refuses one of them."""
    mutations = [case for case in CASES if case.rule is not None]
    assert len(mutations) >= 40
    assert len({case.name for case in CASES}) == len(CASES)
    assert sorted({case.rule for case in mutations}) == sorted(rules())


def test_rules_are_data():
    """R31: Six policies are shipped under their names; each rule has an id and one sentence."""
    assert [policy.name for policy in policies()] == list(POLICIES)
    for policy in policies():
        assert policy.rules
        for rule in policy.rules:
            assert rule.id.startswith(f"{policy.name}/")
            assert rule.text.endswith(".")
            assert "." not in rule.text[:-1].replace("2.5", "")


@pytest.mark.parametrize("kind", sorted(SCHEMA_FILES))
def test_the_schema_is_in_step(kind: str):
    """The shipped JSON Schema is that of the model: `python -m tests.report.make --schemas`."""
    assert shipped_schema(kind) == made_schema(kind)


@pytest.mark.parametrize("file", SHIPPED, ids=lambda file: file.name)
def test_the_schema_takes_what_is_shipped(file: Path):
    """A validator of JSON Schema that knows nothing of this library accepts the reports, too."""
    document = json.loads(file.read_bytes())
    schema = json.loads(shipped_schema(document["kind"]))
    validator = jsonschema.Draft202012Validator(schema)
    assert [error.message for error in validator.iter_errors(document)] == []
    assert not validator.is_valid({**document, "surprise": 1})


@pytest.mark.parametrize("data", [b"", b"{", b"nothing", b'{"a": NaN}'])
def test_what_is_not_json_is_no_document(data: bytes):
    """It is told apart from a document that breaks a rule."""
    with pytest.raises(ValueError, match="line 1 column"):
        validate(data)


@pytest.mark.parametrize("data", [b"[]", b"1", b"{}", b'{"kind": 1}', b'{"kind": "run"}'])
def test_what_is_no_report_is_told(data: bytes):
    """Any JSON value is judged, none raises."""
    findings = validate(data)
    assert findings
    assert {finding.rule for finding in findings} <= set(rules())


def test_a_broken_field_is_named():
    """A finding names the place in the document, whatever part of it is broken."""
    (mixed,) = [json.loads(f.read_bytes()) for f in SHIPPED if f.name == "run-mixed.json"]
    mixed["batches"][1]["polls"] = -1
    mixed["not_succeeded"]["listed"][2]["error"]["message"] = None
    places = {finding.place for finding in validate(json.dumps(mixed).encode())}
    assert places == {"batches[1].polls", "not_succeeded.listed[2].error.message"}
