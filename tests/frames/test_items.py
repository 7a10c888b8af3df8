"""Items from data frames: pandas and polars alike."""

from __future__ import annotations

import json
from collections.abc import Callable
from datetime import date
from typing import Any

import numpy
import pandas
import polars
import pytest
from tests.support import runner_on

from batchwright import DuplicateItem, IntakeError, Item, items_from_dataframe
from batchwright.simulator import Simulator

SETTINGS = {"model": "claude-haiku-5-5", "max_tokens": 9}

Make = Callable[[dict[str, list[Any]]], Any]


@pytest.fixture(params=[pandas.DataFrame, polars.DataFrame], ids=["pandas", "polars"])
def make(request: pytest.FixtureRequest) -> Make:
    """Make a frame of either library from columns."""
    return request.param


def asked(item: Item) -> Any:
    """Return what an item asks."""
    (message,) = item.params["messages"]
    assert message["role"] == "user"
    return message["content"]


def test_a_template_fills_in_columns(make: Make):
    """R9: ids are the column's, whatever the order of rows; the rest of the request is shared."""
    frame = make({"key": ["b", "a"], "text": ["two", "one"], "n": [2, 1]})
    items = list(items_from_dataframe(frame, id="key", prompt="{n:>3}: {text!r}", params=SETTINGS))
    assert [(item.id, asked(item)) for item in items] == [("b", "  2: 'two'"), ("a", "  1: 'one'")]
    assert items[0].params == {**SETTINGS, "messages": items[0].params["messages"]}


def test_braces_and_odd_names_in_a_template(make: Make):
    """Doubled braces are plain ones; dots and brackets are part of a column's name."""
    frame = make({"key": ["a"], "user.name": ["Ann"], "a[0]": [7], "w": [4]})
    prompt = 'Answer {{"score": 1}} for {user.name} {a[0]:{w}}'
    (item,) = items_from_dataframe(frame, id="key", prompt=prompt, params=SETTINGS)
    assert asked(item) == 'Answer {"score": 1} for Ann    7'


def test_functions_get_rows_without_nan(make: Make):
    """A function sees plain values by name, and `None` for each kind of nothing."""
    rows: list[dict[str, Any]] = []

    def prompt(row: dict[str, Any]) -> Any:
        rows.append(row)
        return [{"type": "text", "text": f"Hello {row['key']}"}]

    frame = make({"key": ["a", "b"], "n": [1.5, None], "s": [None, "x"], "k": [1, 2]})
    items = list(
        items_from_dataframe(frame, id=lambda row: f"{row['key']}/{row['k']}", prompt=prompt,
                             params=SETTINGS)
    )  # fmt: skip
    assert [item.id for item in items] == ["a/1", "b/2"]
    assert asked(items[0]) == [{"type": "text", "text": "Hello a"}]
    assert rows == [
        {"key": "a", "n": 1.5, "s": None, "k": 1},
        {"key": "b", "n": None, "s": "x", "k": 2},
    ]
    assert type(rows[0]["k"]) is int


def test_nan_is_nothing(make: Make):
    """NaN, which both libraries can hold in a column of numbers, is not asked about."""
    frame = make({"key": ["a"], "n": [float("nan")]})
    items = items_from_dataframe(frame, id="key", prompt="{n}", params=SETTINGS)
    with pytest.raises(IntakeError, match=r"row 0 \(id 'a'\) has no 'n'"):
        list(items)


def test_pandas_missing_values():
    """NA and NaT are nothing too."""
    columns = {
        "key": ["a"],
        "n": pandas.array([None], dtype="Int64"),
        "t": pandas.to_datetime([None]),
    }
    frame = pandas.DataFrame(columns)
    (item,) = items_from_dataframe(
        frame, id="key", prompt=lambda row: f"{row['n']} {row['t']}", params=SETTINGS
    )
    assert asked(item) == "None None"


def test_whole_requests(make: Make):
    """A function, or a column of JSON text, may give all of a request."""
    whole = {**SETTINGS, "messages": [{"role": "user", "content": "Hi"}]}
    frame = make({"key": ["a"], "request": [json.dumps(whole)]})
    (from_column,) = items_from_dataframe(frame, id="key", params="request")
    (from_function,) = items_from_dataframe(frame, id="key", params=lambda row: whole)
    assert from_column == from_function == Item("a", whole)


def test_a_column_of_dicts():
    """pandas may hold the requests themselves."""
    whole = {**SETTINGS, "messages": [{"role": "user", "content": "Hi"}]}
    frame = pandas.DataFrame({"key": ["a"], "request": [whole]})
    assert list(items_from_dataframe(frame, id="key", params="request")) == [Item("a", whole)]


def test_metadata_and_headers(make: Make):
    """Columns named come back on the outcome, dates as text; headers are everybody's."""
    frame = make({"key": ["a"], "day": [date(2026, 3, 1)], "n": [3], "text": ["x"]})
    (item,) = items_from_dataframe(
        frame,
        id="key",
        prompt="{text}",
        params=SETTINGS,
        metadata=["day", "n"],
        headers={"anthropic-beta": "b"},
    )
    assert item.metadata == {"day": "2026-03-01", "n": 3}
    assert item.headers == {"anthropic-beta": "b"}


@pytest.mark.parametrize(("given", "becomes"), [(7, "7"), ("7a", "7a"), (numpy.int64(7), "7")])
def test_ids_that_are_taken(given: Any, becomes: str):
    """Strings, and whole numbers as text."""
    frame = pandas.DataFrame({"key": pandas.Series([given], dtype="object")})
    (item,) = items_from_dataframe(frame, id="key", prompt="{key}", params=SETTINGS)
    assert item.id == becomes


@pytest.mark.parametrize(
    ("ids", "says"),
    [
        (["a", None], "row 1 has no id"),
        (["a", ""], "row 1 has no id"),
        ([1.0, 2.0], "row 0 has the id 1.0, a float.*drop the rows without an id"),
        ([True, False], "row 0 has the id True, a bool; an id is a string"),
    ],
)
def test_ids_that_are_not(make: Make, ids: list[Any], says: str):
    """What is no id, or not the same in the next run, is refused at once and by its row."""
    frame = make({"key": ids})
    with pytest.raises(IntakeError, match=says):
        items_from_dataframe(frame, id="key", prompt="{key}", params=SETTINGS)


def test_duplicates_are_named(make: Make):
    """R10: an id that occurs twice is told at once, with its rows and how many others do."""
    frame = make({"key": ["a", "b", "a", "b", "a"]})
    with pytest.raises(DuplicateItem, match="'a' .* positions 0 and 2.*; so do 1 more"):
        items_from_dataframe(frame, id="key", prompt="{key}", params=SETTINGS)


def test_numbers_and_their_text_are_one_id():
    """7 and "7" would be the same item."""
    frame = pandas.DataFrame({"key": pandas.Series([7, "7"], dtype="object")})
    with pytest.raises(DuplicateItem):
        items_from_dataframe(frame, id="key", prompt="{key}", params=SETTINGS)


@pytest.mark.parametrize(
    ("options", "says"),
    [
        ({"id": "kee"}, "id: .*no column 'kee'; the columns are 'key', 'text'; .* mean 'key'"),
        ({"prompt": "{txt}"}, r"prompt.*no column 'txt'"),
        ({"prompt": '{"score": 1} {text}'}, r"prompt \(\{\{ and \}\} are plain.*'\"score\"'"),
        ({"prompt": "{text"}, "prompt is no template"),
        ({"prompt": "Hello"}, "every row would ask the same"),
        ({"metadata": "where"}, "metadata: there is no column 'where'"),
        ({"prompt": None}, "prompt is missing"),
        ({"prompt": [{"type": "text"}]}, "not a list; for content blocks give a function"),
        ({"params": "wrong", "prompt": None}, "params: there is no column 'wrong'"),
        ({"params": "text"}, "leave it out"),
        ({"params": {"messages": []}}, "not both"),
    ],
)  # fmt: skip
def test_wrong_options_are_told_at_once(make: Make, options: dict[str, Any], says: str):
    """Before the first item is made, in words that name the columns there are."""
    frame = make({"key": ["a"], "text": ["x"]})
    given = {"id": "key", "prompt": "{text}", "params": SETTINGS, **options}
    with pytest.raises(IntakeError, match=says):
        items_from_dataframe(frame, **given)


def test_the_index_of_pandas_is_no_column():
    """R9: an index is never an id by itself; the way to make it a column is told."""
    frame = pandas.DataFrame({"text": ["x"]}, index=pandas.Index(["a"], name="key"))
    with pytest.raises(IntakeError, match="reset_index"):
        items_from_dataframe(frame, id="key", prompt="{text}", params=SETTINGS)
    frame = pandas.concat([frame, frame], axis=1).reset_index()
    with pytest.raises(IntakeError, match="several columns 'text'"):
        items_from_dataframe(frame, id="key", prompt="{text}", params=SETTINGS)


def test_rows_that_ask_nothing(make: Make):
    """An empty prompt, a missing value and JSON that is none name row and id."""
    frame = make({"key": ["a", "b"], "text": ["x", None]})
    for options, says in [
        ({"prompt": "{text}", "params": SETTINGS}, "has no 'text'"),
        ({"prompt": lambda row: row["text"], "params": SETTINGS}, "the prompt is empty"),
        ({"params": lambda row: "{" if row["text"] is None else {}}, "params are not JSON"),
    ]:
        items = items_from_dataframe(frame, id="key", **options)
        assert next(items).id == "a"
        with pytest.raises(IntakeError, match=rf"row 1 \(id 'b'\).*{says}"):
            next(items)


def test_items_are_made_as_they_are_asked_for(make: Make):
    """Nothing is made ahead, so a frame costs no second copy as items."""
    made: list[str] = []

    def prompt(row: dict[str, Any]) -> str:
        made.append(row["key"])
        return "Hi"

    frame = make({"key": [str(n) for n in range(1_000)]})
    items = items_from_dataframe(frame, id="key", prompt=prompt, params=SETTINGS)
    assert made == []
    next(items)
    assert made == ["0"]


def test_no_rows(make: Make):
    """An empty frame is no items."""
    frame = make({"key": [], "text": []})
    assert list(items_from_dataframe(frame, id="key", prompt="{text}", params=SETTINGS)) == []


@pytest.mark.parametrize(
    ("given", "says"),
    [
        (polars.LazyFrame({"key": ["a"]}), r"not a LazyFrame; collect\(\) it first"),
        ({"key": ["a"]}, "not a dict"),
    ],
)
def test_what_is_no_frame(given: Any, says: str):
    """Something else is refused by its type."""
    with pytest.raises(IntakeError, match=says):
        items_from_dataframe(given, id="key", prompt="{key}", params=SETTINGS)


async def test_a_frame_is_not_items(make: Make, sim: Simulator):
    """Who passes the frame itself to `run` is told the way."""
    async with runner_on(sim) as runner:
        with pytest.raises(IntakeError, match="items_from_dataframe"):
            await runner.run(make({"key": ["a"]}))
    assert sim.creates == []
