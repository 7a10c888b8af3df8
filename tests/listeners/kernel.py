"""
A notebook without a browser: cells from stdin, run in a real IPython kernel, messages to stdout.

`python kernel.py < cells.json`: a list of texts in, a line of JSON for each message out. It is a
process of its own because the client warns of things that are no business of the tests.
"""

from __future__ import annotations

import json
import sys

from jupyter_client.manager import start_new_kernel

#: Seconds in which a cell must be done.
PATIENCE = 60
_SHOWN = {"display_data", "update_display_data", "stream", "error", "execute_result"}


def main() -> None:
    cells = json.load(sys.stdin)
    manager, client = start_new_kernel(kernel_name="python3")
    try:
        for number, cell in enumerate(cells):

            def tell(message: dict, number: int = number) -> None:
                if message["msg_type"] in _SHOWN:
                    told = {"cell": number, "kind": message["msg_type"], **message["content"]}
                    print(json.dumps(told), flush=True)

            client.execute_interactive(cell, timeout=PATIENCE, output_hook=tell)
    finally:
        client.stop_channels()
        manager.shutdown_kernel(now=True)


main()
