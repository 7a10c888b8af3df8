"""
What a SQLite store asks of the file system: may it live there, how, and is there room.
"""

from __future__ import annotations

import os
import shutil
from pathlib import Path
from typing import Final

from batchwright.errors import StoreError, StoreFull

#: Space that an intake leaves free for the work that follows, bytes.
RESERVE: Final = 64_000_000
#: Space kept for the answer to an item that is taken in: a short one, with all that surrounds it.
ANSWER: Final = 1_000
#: Times a chunk is written: to the journal and to the file.
WRITES: Final = 2

#: File systems on which the shared memory of a write-ahead log does not work between machines.
NETWORK: Final = frozenset(
    {"nfs", "nfs4", "cifs", "smb", "smb2", "smb3", "smbfs", "9p", "afs", "ceph", "lustre"}
    | {"gpfs", "beegfs", "glusterfs", "pvfs2", "ocfs2", "gfs2", "virtiofs", "vboxsf", "drvfs"}
    | {"prl_fs", "fakeowner", "acfs", "panfs", "ncpfs", "davfs"}
)
#: The same for file systems in user space, by the name behind `fuse.`.
NETWORK_FUSE: Final = frozenset(
    {"sshfs", "s3fs", "gcsfuse", "rclone", "glusterfs", "cephfs", "ceph-fuse", "beegfs"}
    | {"mountpoint-s3", "blobfuse", "blobfuse2", "goofys", "juicefs", "davfs", "grpcfuse"}
    | {"osxfs", "lustre"}
)


def prepare_file(path: Path) -> None:
    """
    Make sure that a store can live at *path*; create the file, readable by its owner only.

    Raises:
        StoreError: It cannot be created or written there.
    """
    if path.is_dir():
        raise StoreError(f"the store {path} is a folder; name a file in it")
    folder = path.parent
    if not folder.is_dir():
        raise StoreError(f"the store {path} cannot be created: there is no folder {folder}")
    try:
        if not path.exists():
            # Prompts are inside.
            os.close(os.open(path, os.O_CREAT | os.O_RDWR, 0o600))
    except OSError as error:
        raise StoreError(
            f"the store {path} cannot be created: {error.strerror}; name a file in a folder that "
            "may be written to"
        ) from error
    if not os.access(path, os.R_OK | os.W_OK):
        raise StoreError(
            f"the store {path} cannot be written: this user may not, or it is read-only"
        )
    if not os.access(folder, os.W_OK | os.X_OK):
        raise StoreError(
            f"the store {path} cannot be written: its journal goes beside it, and the folder "
            f"{folder} is not writable"
        )


def free_space(path: Path) -> int:
    """Return how many bytes can still be written where *path* lives."""
    return shutil.disk_usage(path.parent).free


def check_space(path: Path, size: int, items: int) -> None:
    """
    Make sure that *size* bytes can be stored, and after them the answers to *items* items.

    Raises:
        StoreFull: There is too little space.
    """
    free, need = free_space(path), RESERVE + WRITES * size + ANSWER * items
    if free < need:
        raise StoreFull(
            f"too little space for the store {path}: {free:,} bytes are free and {need:,} are "
            "needed to take in more items and their answers. Free some, or put the store elsewhere."
        )


def network_filesystem(path: Path) -> str | None:
    """Return the kind of network file system that *path* lives on, `None` for a local one."""
    try:
        mounts = Path("/proc/self/mountinfo").read_text(encoding="utf-8", errors="replace")
    except OSError:
        return None
    kind = filesystem_of(path.resolve(), mounts)
    behind = kind.removeprefix("fuse.")
    networked = behind in NETWORK_FUSE if behind != kind else kind in NETWORK
    return kind if networked else None


def filesystem_of(path: Path, mounts: str) -> str:
    """Return the file system type of *path* by the text of `mountinfo`, empty if unknown."""
    best, kind = -1, ""
    for line in mounts.splitlines():
        before, _, after = line.partition(" - ")
        fields = before.split()
        if len(fields) < 5 or not after:
            continue
        point = Path(_unescape(fields[4]))
        # A later mount on the same point hides the earlier one.
        if path.is_relative_to(point) and len(point.parts) >= best:
            best, kind = len(point.parts), after.split()[0]
    return kind


def _unescape(text: str) -> str:
    for code, char in (("\\040", " "), ("\\011", "\t"), ("\\012", "\n"), ("\\134", "\\")):
        text = text.replace(code, char)
    return text
