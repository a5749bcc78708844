"""What every test shares: drawn examples are the same in every run, plots need no screen."""

from __future__ import annotations

import os

from hypothesis import settings

os.environ.setdefault("MPLBACKEND", "Agg")
settings.register_profile("tabembed", deadline=None, derandomize=True, print_blob=True)
settings.load_profile("tabembed")
