"""The planted faults still find the code that they break, and break it."""

import shutil

import mutation
import pytest


@pytest.mark.parametrize("fault", mutation.FAULTS, ids=lambda fault: fault.name)
def test_a_fault_can_be_planted_once(fault, tmp_path):
    shutil.copytree(mutation.ROOT / "cookbook", tmp_path / "cookbook")
    mutation.plant(fault, tmp_path / "cookbook")
    planted = (tmp_path / "cookbook" / fault.file).read_text(encoding="utf-8")
    compile(planted, fault.file, "exec")
    assert planted != (mutation.ROOT / "cookbook" / fault.file).read_text(encoding="utf-8")
    with pytest.raises(ValueError, match=rf"fault '{fault.name}'"):
        mutation.plant(fault._replace(old="no such code"), tmp_path / "cookbook")
