"""Every script in docs/examples runs as it stands and leaves what it says."""

import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
SCRIPTS = sorted((ROOT / "docs" / "examples").glob("*.py"))


def test_there_is_one_for_every_use() -> None:
    texts = [script.read_text(encoding="utf-8") for script in SCRIPTS]
    for use in (1, 2, 3):
        assert any(f'"""Use {use}:' in text for text in texts)


@pytest.mark.parametrize("script", SCRIPTS, ids=lambda script: script.stem)
def test_script_runs(script: Path, tmp_path: Path) -> None:
    done = subprocess.run(
        [sys.executable, str(script)], cwd=tmp_path, capture_output=True, text=True, timeout=240, check=False
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout.strip()
    for picture in tmp_path.glob("*.png"):
        assert picture.read_bytes().startswith(b"\x89PNG") and picture.stat().st_size > 5_000
