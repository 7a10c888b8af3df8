"""
The URL of a PostgreSQL store: what it may say, and that nothing of it repeats a password.
"""

from __future__ import annotations

import pytest

from batchwright.errors import ConfigurationError
from batchwright.stores import name_of
from batchwright.stores._postgres_url import parse


def test_defaults():
    """Without parameters of ours a URL goes to the driver as it is."""
    target = parse("postgresql://me:pw@host:5433/db?sslmode=require")

    assert target.url == "postgresql://me:pw@host:5433/db?sslmode=require"
    assert (target.schema, target.outage) == ("batchwright", 60.0)
    assert target.name == "postgresql://me@host:5433/db"


def test_our_parameters():
    """`schema` and `outage` are ours and are kept from the driver, which does not know them."""
    target = parse("postgres://h/d?schema=a%20b&application_name=x%26y&outage=2.5")

    assert target.url == "postgres://h/d?application_name=x%26y"
    assert (target.schema, target.outage) == ("a b", 2.5)


@pytest.mark.parametrize(
    ("url", "name"),
    [
        ("postgresql://", "postgresql://"),
        ("postgresql:///db", "postgresql:///db"),
        ("postgresql://me:p%40ss@[::1]:5432/db", "postgresql://me@[::1]:5432/db"),
        ("postgresql://me:w?y@a,b:1/db", "postgresql://me@a,b:1/db"),
        ("postgresql:///db?host=/tmp/x&password=secret", "postgresql:///db?host=/tmp/x"),
        ("postgresql://%2Ftmp%2Fx/db", "postgresql://%2Ftmp%2Fx/db"),
        ("postgresql://?service=prod&sslpassword=secret", "postgresql://?service=prod"),
    ],
)
def test_shown(url, name):
    """A store is shown by where it is and for whom, never with a password."""
    assert parse(url).name == name
    assert name_of(url) == name


@pytest.mark.parametrize(
    "url",
    [
        "postgresql://me:sec/ret@host/db",
        "postgresql://me:sec@ret@host/db",
        "postgresql://me:12/ret@host/db",
        "postgresql://me:secret@host:port/db",
        "postgresql:me:secret@host/db",
        "postgresql://[::1/db:secret",
    ],
)
def test_unescaped(url):
    """A password with characters that must be escaped is refused, without repeating any of it."""
    with pytest.raises(ConfigurationError, match="%40") as caught:
        parse(url)

    assert "sec" not in str(caught.value)
    assert "ret" not in str(caught.value)
    assert "sec" not in name_of(url)
    assert "ret" not in name_of(url)


@pytest.mark.parametrize(
    ("query", "message"),
    [
        ("outage=soon", "outage='soon'"),
        ("outage=-1", "outage='-1'"),
        ("outage=inf", "outage='inf'"),
        ("schema=", "schema=''"),
        ("schema=" + "x" * 64, "takes 1 to 63 bytes"),
    ],
)
def test_wrong_values(query, message):
    """A value that cannot be is refused by name."""
    with pytest.raises(ConfigurationError, match=message):
        parse(f"postgresql://me:secret@host/db?{query}")
