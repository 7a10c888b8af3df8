"""
Prompts that every machine has: the docstrings of the standard library.
"""

from __future__ import annotations

import importlib
import inspect
import warnings
from collections.abc import Iterator
from types import ModuleType
from typing import Any

from batchwright.types import Item

MODEL = "claude-sonnet-5"
_LONGEST = 2_000

#: Modules that do nothing when they are imported and are there on every platform.
_MODULES = """
abc argparse array ast asyncio base64 bdb bisect builtins bz2 calendar cmath cmd code codecs
collections collections.abc colorsys compileall concurrent.futures configparser contextlib
contextvars copy copyreg csv ctypes dataclasses datetime dbm decimal difflib dis doctest
email.header email.message email.utils enum errno fileinput fnmatch fractions ftplib functools gc
getpass gettext glob graphlib gzip hashlib heapq hmac html html.parser http.client http.cookies
http.server imaplib importlib inspect io ipaddress itertools json json.decoder json.encoder
keyword linecache locale logging logging.handlers lzma mailbox marshal math mimetypes mmap
multiprocessing multiprocessing.pool netrc numbers operator optparse os os.path pathlib pdb pickle
pickletools pkgutil platform plistlib poplib pprint profile pstats py_compile pyclbr pydoc queue
quopri random re reprlib runpy sched secrets selectors shelve shlex shutil signal site smtplib
socket socketserver sqlite3 ssl stat statistics string stringprep struct subprocess symtable sys
sysconfig tabnanny tarfile tempfile textwrap threading time timeit token tokenize trace traceback
tracemalloc types typing unicodedata unittest unittest.mock urllib.error urllib.parse
urllib.request urllib.robotparser uuid warnings wave weakref webbrowser wsgiref.handlers
wsgiref.headers xml.dom xml.dom.minidom xml.etree.ElementTree xml.sax xmlrpc.client zipapp zipfile
zipimport zlib zoneinfo
""".split()  # noqa: SIM905 - ten lines instead of two hundred


def demo_items(count: int) -> list[Item]:
    """Return *count* items in a fixed order, with ids such as `json.dumps`."""
    found = sorted(_documented().items())
    if not found:  # a Python that was stripped of all its docstrings
        found = [(f"{name}.module", f"The module {name}.") for name in _MODULES]
    # Spread over the whole library, and in a second round asked as further samples.
    step = max(len(found) // count, 1)
    picked = found[::step]
    items = []
    for number in range(count):
        sample, place = divmod(number, len(picked))
        name, doc = picked[place]
        items.append(_item(name if not sample else f"{name}#{sample + 1}", name, doc))
    return items


def _item(item_id: str, name: str, doc: str) -> Item:
    question = f"In one sentence, for a beginner: what is `{name}` for?\n\n{doc[:_LONGEST]}"
    return Item(
        item_id,
        {
            "model": MODEL,
            "max_tokens": 200,
            "messages": [{"role": "user", "content": question}],
        },
    )


def _documented() -> dict[str, str]:
    found: dict[str, str] = {}
    with warnings.catch_warnings():
        # A newer Python may deprecate a module or a name; the demo only reads what it says.
        warnings.simplefilter("ignore")
        for name in _MODULES:
            try:
                module = importlib.import_module(name)
            except ImportError:
                continue  # removed from this Python, or left out of this build
            found.update(_of_module(module))
    return found


def _of_module(module: ModuleType) -> Iterator[tuple[str, str]]:
    for name, value in sorted(vars(module).items()):
        if name.startswith("_") or getattr(value, "__module__", None) != module.__name__:
            continue
        path = f"{module.__name__}.{name}"
        if inspect.isroutine(value):
            yield from _of(path, value)
        elif inspect.isclass(value):
            yield from _of(path, value)
            for inner, method in sorted(vars(value).items()):
                if not inner.startswith("_") and inspect.isroutine(method):
                    yield from _of(f"{path}.{inner}", method)


def _of(path: str, value: Any) -> Iterator[tuple[str, str]]:
    doc = getattr(value, "__doc__", None)
    if isinstance(doc, str) and doc.strip():
        yield path, inspect.cleandoc(doc)
