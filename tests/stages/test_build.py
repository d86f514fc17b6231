"""What a stage imports."""

import subprocess
import sys

import pytest


@pytest.mark.parametrize("stage", ["explainer", "fold", "sentinel"])
def test_who_makes_no_model_imports_no_river(stage: str) -> None:
    """Nor what River brings: two seconds of every start."""
    program = (
        "import sys\n"
        "from pipeline.stages import build\n"
        "from pipeline.configuration import load\n"
        f"made = build._{stage}(load(), None)\n"
        "print(*sorted({'river', 'scipy.stats', 'pandas'} & set(sys.modules)))"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout.strip()) == (0, ""), done.stderr
