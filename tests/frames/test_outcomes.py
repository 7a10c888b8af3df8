"""Outcomes as data frames: pandas and polars alike, and the way there and back."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any, Literal

import pandas
import polars
import pytest
from tests.support import items, params, runner_on

from batchwright import ConfigurationError, Item, ItemError, Outcome, to_dataframe
from batchwright._columns import COLUMNS
from batchwright.dataframes import items_from_dataframe
from batchwright.simulator import Simulator, errored

Library = Literal["pandas", "polars"]


@pytest.fixture(params=["pandas", "polars"])
def library(request: pytest.FixtureRequest) -> Library:
    """The library whose frame is wanted."""
    return request.param


def rows_of(frame: Any) -> list[dict[str, Any]]:
    """Return the rows of either kind of frame, missing values as `None`."""
    if isinstance(frame, polars.DataFrame):
        return frame.to_dicts()
    return frame.astype("object").where(frame.notna(), None).to_dict("records")


def answered(item_id: str, content: list[Any], metadata: Any = None) -> Outcome:
    """Return an outcome with an answer."""
    message = {
        "content": content,
        "stop_reason": "end_turn",
        "usage": {"input_tokens": 5, "output_tokens": 3},
    }
    raw = json.dumps({"type": "succeeded", "message": message}).encode()
    return Outcome(
        item_id, f"{item_id}-x", "succeeded", via="batch", org="o", attempts=1, raw=raw,
        metadata=metadata,
    )  # fmt: skip


TOOL = {"type": "tool_use", "id": "t", "name": "f", "input": {}}
LOST = Outcome(
    "b", "b-x", "quarantined", reason="invalid_request_error", attempts=1,
    error=ItemError("invalid_request_error", "no such thing"),
)  # fmt: skip


def test_columns_and_rows(library: Library):
    """Every documented column is there, in order, and nothing stands in for what is missing."""
    texts = [{"type": "text", "text": "Yes"}, TOOL, {"type": "text", "text": "."}]
    frame = to_dataframe([answered("a", texts), LOST, answered("c", [TOOL])], library)
    assert tuple(frame.columns) == COLUMNS
    first, second, third = rows_of(frame)
    assert first == {
        "id": "a", "status": "succeeded", "reason": None, "via": "batch", "org": "o",
        "attempts": 1, "text": "Yes.", "stop_reason": "end_turn", "input_tokens": 5,
        "output_tokens": 3, "error_type": None, "error_message": None,
    }  # fmt: skip
    assert (second["text"], second["output_tokens"]) == (None, None)
    assert (second["error_type"], second["error_message"]) == (
        "invalid_request_error",
        "no such thing",
    )
    assert third["text"] == ""


def test_types_do_not_depend_on_the_values(library: Library):
    """Without a row, and with a missing number, a column has the same type."""
    frames = [
        to_dataframe(outcomes, library)
        for outcomes in ([], [LOST], [answered("a", []), LOST], [answered("a", [])])
    ]
    assert len({tuple(map(str, frame.dtypes)) for frame in frames}) == 1
    assert len(frames[0]) == 0


def test_metadata_becomes_columns(library: Library):
    """A column a key; a name that is taken gets a prefix; what is no dict has its own column."""
    about: list[Any] = [{"n": 1, "text": "mine"}, None, {"tag": ["x"]}, "plain", {"n": 2**63}]
    outcomes = [answered(f"{n}", [], one) for n, one in enumerate(about)]
    frame = to_dataframe(outcomes, library)
    assert tuple(frame.columns) == (*COLUMNS, "n", "metadata_text", "tag", "metadata")
    rows = rows_of(frame)
    assert [row["n"] for row in rows] == [1, None, None, None, 2**63]
    assert [row["metadata_text"] for row in rows] == ["mine", None, None, None, None]
    assert list(rows[2]["tag"]) == ["x"]
    assert [row["metadata"] for row in rows] == [None, None, None, "plain", None]


def test_whole_numbers_of_metadata_stay_whole():
    """A missing number makes no floats of the others, which no longer join then."""
    frame = to_dataframe([answered("a", [], {"n": 2**60 + 1, "x": 1.0}), LOST], "pandas")
    assert (frame["n"][0], str(frame["n"].dtype)) == (2**60 + 1, "Int64")
    assert str(frame["x"].dtype) == "Float64"


async def test_there_and_back(sim: Simulator, library: Library, tmp_path: Path):
    """A frame goes in, a frame comes out, and they join by id; with answers in memory or not."""
    make = {"pandas": pandas.DataFrame, "polars": polars.DataFrame}[library]
    frame = make({"key": ["b", "a", "c"], "q": ["Q-b", "Q-a", "Q-c"]})
    sim.fate_for("c", errored("invalid_request_error", "not this one"))

    def asked() -> Any:
        return items_from_dataframe(
            frame,
            id="key",
            prompt="{q}",
            params={"model": "claude-haiku-5-5", "max_tokens": 50},
            metadata="q",
        )

    async with runner_on(sim, tmp_path / "frame.db") as runner:
        run = await runner.run(asked())
        held = to_dataframe(run, library)
        later = await runner.run(asked(), collect=False)
        while_open = to_dataframe(later, library)
        listed = to_dataframe([outcome async for outcome in runner.outcomes()], library)
    read = to_dataframe(later, library)
    assert held.equals(while_open)
    assert held.equals(read)
    assert held.equals(listed)
    rows = rows_of(held)
    assert [(row["id"], row["q"], row["status"]) for row in rows] == [
        ("b", "Q-b", "succeeded"),
        ("a", "Q-a", "succeeded"),
        ("c", "Q-c", "quarantined"),
    ]
    assert rows[0]["text"].startswith("echo:Q-b")


async def test_a_store_in_memory(sim: Simulator, library: Library):
    """A result is told from memory as it was, also when the run has gone on since."""
    async with runner_on(sim) as runner:
        run = await runner.run(items(3))
        await runner.run([*items(3), Item("more", params("more"))])
        assert len(to_dataframe(run, library)) == 3
        assert [outcome.id async for outcome in run] == ["doc-0", "doc-1", "doc-2"]


async def test_what_is_no_outcomes(sim: Simulator):
    """An asynchronous iterator cannot be waited for here; how to collect it is told."""
    async with runner_on(sim) as runner:
        stream = runner.outcomes()
        with pytest.raises(ConfigurationError, match="async for outcome in"):
            to_dataframe(stream, "pandas")  # type: ignore[arg-type]
    with pytest.raises(ConfigurationError, match="not a str"):
        to_dataframe("doc-1", "pandas")  # type: ignore[arg-type]


def test_libraries(monkeypatch: pytest.MonkeyPatch):
    """A name that is none, and a library that is not there, are told."""
    with pytest.raises(ConfigurationError, match="'pandsa'"):
        to_dataframe([], "pandsa")  # type: ignore[arg-type]
    monkeypatch.setitem(sys.modules, "polars", None)
    with pytest.raises(ConfigurationError, match="pip install polars"):
        to_dataframe([], "polars")
