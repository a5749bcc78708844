"""An environment of its own for a peer that needs other versions than tabembed does."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

FOLDER = Path("build/peers/pytorch-forecasting")
REQUIREMENTS = ["torch==2.13.0", "pytorch-forecasting==1.8.0"]


def pytorch_forecasting() -> Path:
    """The Python of an environment with pytorch-forecasting; made on the first call, under ``build/``."""
    python, done = FOLDER / "bin" / "python", FOLDER / "installed.txt"
    wanted = "\n".join(REQUIREMENTS)
    if not done.exists() or done.read_text() != wanted:
        print(f"making {FOLDER} with {', '.join(REQUIREMENTS)}: some minutes, once", flush=True)
        subprocess.run([sys.executable, "-m", "venv", "--clear", FOLDER], check=True)
        subprocess.run([python, "-m", "pip", "install", "-q", *REQUIREMENTS], check=True)
        done.write_text(wanted)
    return python.absolute()
