import sys
from types import SimpleNamespace

import pytest
import torch

from geonode.compute import choice


@pytest.fixture
def computer(monkeypatch):
    """Pretend to be a machine with some cards, given by name, memory and capability, or mps."""

    def has(*cards, mps=False):
        about = [
            SimpleNamespace(name=name, total_memory=memory, major=capability[0])
            for name, memory, capability in cards
        ]
        monkeypatch.setattr(choice, "first_card", lambda: cards[0][0] if cards else None)
        monkeypatch.setattr(sys, "platform", "darwin" if mps else "linux")
        monkeypatch.setattr(torch.cuda, "is_available", lambda: bool(cards))
        monkeypatch.setattr(torch.cuda, "device_count", lambda: len(cards))
        monkeypatch.setattr(torch.cuda, "get_device_properties", about.__getitem__)
        monkeypatch.setattr(
            torch.cuda, "get_device_capability", lambda place: cards[place.index or 0][2]
        )
        monkeypatch.setattr(torch.backends.mps, "is_available", lambda: mps)

    return has
