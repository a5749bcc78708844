"""What every test shares: drawn examples are the same in every run, plots need no screen, threads do not
multiply by the number of workers."""

from __future__ import annotations

import os

from hypothesis import settings

os.environ.setdefault("MPLBACKEND", "Agg")
os.environ.setdefault("OMP_NUM_THREADS", "1")
settings.register_profile("tabembed", deadline=None, derandomize=True, print_blob=True)
settings.load_profile("tabembed")
