"""Bad usage and bad input: one line, exit status 2, nothing sent; all in this process."""

from __future__ import annotations

import json

import pytest

from .support import Inside, item, write_items

BAD = {
    "missing file": ("nowhere.jsonl", None, "no file nowhere.jsonl"),
    "folder": (".", None, "is a folder"),
    "empty": ("items.jsonl", "", "holds no items"),
    "blank": ("items.jsonl", "\n\n", "holds no items"),
    "no JSON": ("items.jsonl", "{\n", "items.jsonl, line 1: not JSON"),
    "no id": ("items.jsonl", '\n{"params": {}}\n', "items.jsonl, line 2"),
    "number as id": ("items.jsonl", '{"id": 7, "params": {}}\n', "ids are strings"),
    "NaN": ("items.jsonl", '{"id": "7", "params": {"a": NaN}}\n', "line 1: not JSON"),
}


@pytest.mark.parametrize("name", BAD)
def test_bad_input_is_2(here: Inside, name: str) -> None:
    """What is wrong is said in one line, and nothing is sent."""
    file, text, says = BAD[name]
    if text is not None:
        (here.folder / file).write_text(text)
    done = here("run", file, "--out", "out.jsonl")
    assert done.returncode == 2
    assert says in done.stderr
    assert done.stderr.count("\n") == 1
    assert not (here.folder / "out.jsonl").exists()


@pytest.mark.parametrize(
    ("words", "says"),
    [
        (("--out", "items.jsonl"), "is ITEMS itself"),
        (("--out", "no/out.jsonl"), "cannot write no/out.jsonl"),
        (("--out", "."), "is a folder"),
        (("--out", "batchwright.db"), "is the store"),
        (("--store", "items.jsonl"), "both ITEMS and the store"),
        (("--store", "memory://"), "name a file"),
        (("--max-attempts", "0"), "max_attempts"),
        (("--poll-interval", "-1"), "poll interval"),
        (("--policy", "fast"), "policy='fast'"),
        (("--on-changed", "maybe"), "on_changed"),
    ],
)
def test_bad_options_are_2(here: Inside, words: tuple[str, ...], says: str) -> None:
    """Options are looked at before anything is sent."""
    path = write_items(here.folder / "items.jsonl", item(1))
    before = path.read_bytes()
    done = here("run", "items.jsonl", *words)
    assert done.returncode == 2
    assert says in done.stderr
    assert path.read_bytes() == before


@pytest.mark.parametrize(
    "words",
    [
        ("status",),
        ("resume",),
        ("cancel",),
        ("export", "--out", "out.jsonl"),
        ("report",),
    ],
)
def test_a_store_that_is_not_there_is_not_created(here: Inside, words: tuple[str, ...]) -> None:
    """Looking does not make a store."""
    done = here(*words)
    assert done.returncode == 2
    assert "there is no store" in done.stderr
    assert list(here.folder.iterdir()) == []


def test_an_unknown_run_is_named(here: Inside) -> None:
    """The runs that are there are said."""
    (here.folder / "items.jsonl").write_text("{")
    assert here("run", "items.jsonl", "--run-id", "a").returncode == 2
    done = here("status", "--run-id", "b")
    assert done.returncode == 2
    assert "there is no run 'b'" in done.stderr


def test_errors_as_json(here: Inside) -> None:
    """--json gives an object for an error, too."""
    write_items(here.folder / "items.jsonl", item(1), item(1))
    done = here("run", "items.jsonl", "--json", "--quiet")
    told = json.loads(done.stdout)
    assert told["exit"] == done.returncode == 2
    assert told["error"]["type"] == "DuplicateItem"


def test_a_typing_error_gets_a_proposal(here: Inside) -> None:
    """A command that does not exist is answered with the one that was meant."""
    done = here("rnu", "items.jsonl")
    assert done.returncode == 2
    assert "'run'" in done.stderr


def test_every_help_has_examples(here: Inside) -> None:
    """Each command teaches by example."""
    for name in ("run", "resume", "status", "cancel", "export", "report", "simulate", "demo"):
        done = here(name, "--help")
        assert done.returncode == 0
        assert "Examples:" in done.stdout
        assert f"batchwright {name}" in done.stdout


def test_an_unforeseen_error_is_one_line(here: Inside, monkeypatch: pytest.MonkeyPatch) -> None:
    """No traceback unless asked for, and never a key."""

    def broken(*_: object) -> None:
        raise TypeError("odd: sk-ant-api03-secret")

    monkeypatch.setattr("batchwright.cli._look.known_store", broken)
    done = here("status")
    assert done.returncode == 1
    assert done.stderr.startswith("error: unexpected TypeError: odd: sk-…")
    assert "secret" not in here("status", "--verbose").stderr
    assert "Traceback" in here("status", "--verbose").stderr
