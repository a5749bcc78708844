from __future__ import annotations

from types import SimpleNamespace

import pytest

import tabembed.table.epoch as room


def test_more_workers_than_there_is_room_for_are_refused(monkeypatch):
    monkeypatch.setattr(room, "get_worker_info", lambda: SimpleNamespace(id=4096, num_workers=4097))
    with pytest.raises(ValueError, match="num_workers must be at most 4096, got 4097"):
        room.Epoch().begin()
