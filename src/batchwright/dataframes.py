"""
Data frames at both ends: rows become items, outcomes become rows; for pandas and polars.

Neither library is needed or imported until the caller passes a frame or names one of them.
"""

from __future__ import annotations

import string
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from importlib import import_module
from numbers import Integral
from typing import Any, Literal, TypeAlias, cast

import orjson

from batchwright._columns import Columns, pandas_frame, polars_frame
from batchwright._rows import DataFrame, Row, Table
from batchwright._threads import run_blocking
from batchwright.errors import ConfigurationError, DuplicateItem, IntakeError
from batchwright.result import RunResult
from batchwright.types import Item, Outcome

Prompt: TypeAlias = str | Sequence[Mapping[str, Any]]


# -- from a frame -----------------------------------------------------------------------------


def items_from_dataframe(
    frame: DataFrame,
    *,
    id: str | Callable[[Row], object],  # noqa: A002 - the word that callers know
    params: Mapping[str, Any] | Callable[[Row], Mapping[str, Any]] | str,
    prompt: str | Callable[[Row], Prompt] | None = None,
    metadata: str | Sequence[str] = (),
    headers: Mapping[str, str] | None = None,
) -> Iterator[Item]:
    """
    Return an item for each row of a pandas or polars frame, made as it is asked for.

    Functions get the row as a dict, with `None` for missing values.

    Args:
        frame: The rows.
        id: Column of the ids, or a function of the row that returns one: a string or a
            whole number from your own data. The position of a row is never taken for it.
        params: The request without its messages, the same for all rows. Or the whole request: a
            function of the row, or a column that holds it as a mapping or as JSON text.
        prompt: Template of the one user message, with names of columns in braces, or a function of
            the row that returns its content. Needed where *params* is a mapping.
        metadata: Columns that come back on the outcomes.
        headers: Headers that every item needs, as in `Item`.

    Raises:
        IntakeError: At once, when a column does not exist or an id is missing or cannot be one;
            while iterating, when a row gives no request. The message names row and column.
        DuplicateItem: At once, when an id occurs twice.
    """
    table = Table(frame)
    named = _Named(table, metadata)
    identify = named.of(id, "id")
    ask = _asking(named, params, prompt)
    _check_ids(table, identify, named)
    return _items(table, named, identify, ask, headers)


class _Named:
    """The columns that are used; a function may look at all of them."""

    def __init__(self, table: Table, metadata: str | Sequence[str]) -> None:
        self._table = table
        self.metadata = [metadata] if isinstance(metadata, str) else list(metadata)
        self.names: list[str] | None = []
        for name in self.metadata:
            self.use(name, "metadata")

    def use(self, name: str, option: str) -> None:
        self._table.check(name, option)
        if self.names is not None:
            self.names.append(name)

    def of(self, given: Any, option: str) -> Callable[[Row], Any]:
        """Return how to get at a value: from a column, or by the caller's function."""
        if callable(given):
            self.names = None
            function: Callable[[Row], Any] = given
            return function
        self.use(given, option)
        return lambda row: row[given]


def _items(
    table: Table,
    named: _Named,
    identify: Callable[[Row], Any],
    ask: Callable[[Row, str], Any],
    headers: Mapping[str, str] | None,
) -> Iterator[Item]:
    for position, row in enumerate(table.rows(named.names)):
        item_id = _id_from(identify(row), position)
        about = {name: _storable(row[name]) for name in named.metadata} or None
        where = f"row {position} (id {item_id!r})"
        yield Item(item_id, ask(row, where), headers, about)


def _storable(value: Any) -> Any:
    """Return a date as the text JSON has for it; all else is left to the intake."""
    written = getattr(value, "isoformat", None)
    return value if written is None else written()


def _check_ids(table: Table, identify: Callable[[Row], Any], named: _Named) -> None:
    seen: dict[str, int] = {}
    twice: dict[str, tuple[int, int]] = {}
    for position, row in enumerate(table.rows(named.names)):
        item_id = _id_from(identify(row), position)
        first = seen.setdefault(item_id, position)
        if first != position:
            twice.setdefault(item_id, (first, position))
    for item_id, positions in twice.items():
        raise DuplicateItem(item_id, positions, others=len(twice) - 1)


def _id_from(value: Any, position: int) -> str:
    if isinstance(value, str) and value:
        return value
    if not isinstance(value, bool) and isinstance(value, Integral):
        return str(value)
    if value is None or value == "":
        raise IntakeError(
            f"row {position} has no id; drop it, or choose a column that every row has. "
            "Nothing was sent."
        )
    hint = "make a string of it that stays the same from run to run"
    if isinstance(value, float):
        hint = (
            "whole numbers beside missing ones become such; drop the rows without an id and make "
            "whole numbers or strings of the others"
        )
    raise IntakeError(
        f"row {position} has the id {value!r}, a {type(value).__name__}; an id is a string "
        f"or a whole number: {hint}. Nothing was sent."
    )


def _asking(named: _Named, params: Any, prompt: Any) -> Callable[[Row, str], Any]:
    """Return what makes the request of a row; it gets the row and words for where it stands."""
    if not isinstance(params, Mapping):
        if prompt is not None:
            raise IntakeError(
                "prompt goes with params that are the same for all rows; leave it out where a "
                "function or a column gives the whole request"
            )
        given = named.of(params, "params")
        return lambda row, where: _request(given(row), where)
    if prompt is None:
        raise IntakeError(
            "prompt is missing: params is the same for all rows, so say what to ask of each one, "
            'as in prompt="Summarize: {text}"'
        )
    if "messages" in params:
        raise IntakeError("give either prompt or params with messages, not both")
    content = _content(named, prompt)

    def ask(row: Row, where: str) -> Any:
        text = content(row, where)
        if text is None or text == "":
            raise IntakeError(f"{where}: the prompt is empty; drop the row. Nothing was sent.")
        return {**params, "messages": [{"role": "user", "content": text}]}

    return ask


def _content(named: _Named, prompt: Any) -> Callable[[Row, str], Any]:
    if isinstance(prompt, str):
        return _template(named, prompt)
    if not callable(prompt):
        raise IntakeError(
            f"prompt is a template or a function of the row, not a {type(prompt).__name__}; for "
            "content blocks give a function that returns them"
        )
    function = named.of(prompt, "prompt")
    return lambda row, _where: function(row)


def _request(value: Any, where: str) -> Any:
    if not isinstance(value, str):
        return value
    try:
        return orjson.loads(value)
    except orjson.JSONDecodeError as error:
        raise IntakeError(
            f"{where}: its params are not JSON ({error.msg} at column {error.colno}). "
            "Nothing was sent."
        ) from None


def _template(named: _Named, template: str) -> Callable[[Row, str], str]:
    fields = _fields(template)
    if not fields:
        raise IntakeError(
            f"prompt names no column, so every row would ask the same: {template!r}; write "
            "{column} where its value belongs"
        )
    for name in fields:
        named.use(name, "prompt ({{ and }} are plain braces)")

    formatter = _ByColumn()

    def fill(row: Row, where: str) -> str:
        for name in fields:
            if row[name] is None:
                raise IntakeError(
                    f"{where} has no {name!r}, which the prompt needs; drop the row, or fill it "
                    "in. Nothing was sent."
                )
        return formatter.vformat(template, (), row)

    return fill


class _ByColumn(string.Formatter):
    """Takes all that stands in braces for the name of a column, dots and brackets too."""

    def get_field(self, field_name: str, args: Any, kwargs: Any) -> Any:  # noqa: ARG002
        return kwargs[field_name], field_name


def _fields(template: str) -> list[str]:
    """Return the columns that a template names, also inside of format specifications."""
    try:
        parts = [part for part in string.Formatter().parse(template) if part[1] is not None]
    except ValueError as error:
        raise IntakeError(
            f"prompt is no template ({error}); write {{{{ and }}}} for plain braces"
        ) from None
    inner = [name for _, _, spec, _ in parts for name in _fields(spec or "")]
    return [name for _, name, _, _ in parts if name is not None] + inner


# -- to a frame -------------------------------------------------------------------------------


def to_dataframe(
    outcomes: RunResult | Iterable[Outcome], library: Literal["pandas", "polars"]
) -> Any:
    """
    Return a frame with one row per outcome, in their order.

    Its columns are `id`, `status`, `reason`, `via`, `org`, `attempts`, `text`, `stop_reason`,
    `input_tokens`, `output_tokens`, `error_type`, `error_message`, and one for each key of the
    metadata. Join it with yours by `id`, never by position.

    Args:
        outcomes: A result, with its answers in memory or not (then the store is read, and the call
            blocks meanwhile), or outcomes.
        library: Whose frame it is to be: `"pandas"` or `"polars"`.

    Raises:
        ConfigurationError: The library is not known or not installed, or *outcomes* is neither.
    """
    if library not in ("pandas", "polars"):
        raise ConfigurationError(f'library is "pandas" or "polars", not {library!r}')
    try:
        made_by = import_module(library)
    except ImportError:
        raise ConfigurationError(f"{library} is not installed: pip install {library}") from None
    columns = Columns()
    if isinstance(outcomes, RunResult):
        result = outcomes
        run_blocking(lambda: _take_all(columns, result))
    elif isinstance(outcomes, Iterable):
        for outcome in outcomes:
            if not isinstance(cast("object", outcome), Outcome):
                raise _no_outcomes(outcome)
            columns.take(outcome)
    else:
        raise _no_outcomes(outcomes)
    make = pandas_frame if library == "pandas" else polars_frame
    return make(made_by, columns)


def _no_outcomes(given: object) -> ConfigurationError:
    return ConfigurationError(
        f"to_dataframe takes a RunResult or outcomes, not a {type(given).__name__}; of an "
        "asynchronous iterator make a list first: [outcome async for outcome in …]"
    )


async def _take_all(columns: Columns, result: RunResult) -> None:
    async for outcome in result:
        columns.take(outcome)
