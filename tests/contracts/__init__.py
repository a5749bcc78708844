"""One case for every public module of ``tabembed.nn``; ``test_contract.py`` runs them all."""

from __future__ import annotations

from contracts.case import Case as Case
from contracts.fourier import CASES as FOURIER
from contracts.numeric import CASES as NUMERIC
from contracts.positions import CASES as POSITIONS
from contracts.random_fourier import CASES as RANDOM_FOURIER
from contracts.sequence import CASES as SEQUENCE
from contracts.tables import CASES as TABLES
from contracts.time import CASES as TIME
from contracts.timestep import CASES as TIMESTEP

CASES = [*FOURIER, *RANDOM_FOURIER, *NUMERIC, *TABLES, *TIME, *TIMESTEP, *POSITIONS, *SEQUENCE]
