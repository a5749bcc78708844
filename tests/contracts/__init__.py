"""One case for every public module of ``tabembed.nn``; ``test_contract.py`` runs them all."""

from __future__ import annotations

from contracts.case import Case as Case
from contracts.fourier import CASES as FOURIER
from contracts.tables import CASES as TABLES
from contracts.timestep import CASES as TIMESTEP

CASES = [*FOURIER, *TABLES, *TIMESTEP]
