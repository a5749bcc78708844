"""What every test shares: drawn examples are the same in every run, plots need no screen, threads do not
multiply by the number of workers, kernels run in Triton's interpreter (Triton reads that when imported)."""

from __future__ import annotations

import os
from importlib.util import find_spec

from hypothesis import settings

os.environ.setdefault("MPLBACKEND", "Agg")
os.environ.setdefault("OMP_NUM_THREADS", "1")
os.environ.setdefault("TRITON_INTERPRET", "1")
collect_ignore_glob = [] if find_spec("triton") else ["*_triton.py"]
settings.register_profile("tabembed", deadline=None, derandomize=True, print_blob=True)
settings.load_profile("tabembed")
