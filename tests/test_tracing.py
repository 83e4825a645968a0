"""Tracing is silent unless it is asked for."""

import pytest

from cookbook.tracing import init_tracing, stage


@pytest.fixture(autouse=True)
def _off():
    yield
    init_tracing("off")


def test_off_by_default(monkeypatch, capsys):
    monkeypatch.delenv("COOKBOOK_TRACING", raising=False)
    assert init_tracing() == "tracing: off"
    with stage("search"):
        pass
    assert capsys.readouterr() == ("", "")


def test_console_prints_each_stage_even_when_it_fails(monkeypatch, capsys):
    monkeypatch.setenv("COOKBOOK_TRACING", "console")
    init_tracing()
    with pytest.raises(KeyError), stage("search", top_k=8):
        raise KeyError("gone")
    out, err = capsys.readouterr()
    assert out == ""
    assert err.startswith("search") and "top_k=8" in err


def test_an_unknown_mode_names_the_variable():
    with pytest.raises(ValueError, match="COOKBOOK_TRACING"):
        init_tracing("loud")
