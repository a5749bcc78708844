"""Files that are none to read from."""

from __future__ import annotations

import os
import socket
from pathlib import Path


def listen(path: Path) -> None:
    """Leave a socket at a path, which may be longer than the system takes: so from inside its folder."""
    here = os.getcwd()
    os.chdir(path.parent)
    try:
        with socket.socket(socket.AF_UNIX) as one:
            one.bind(path.name)
    finally:
        os.chdir(here)
