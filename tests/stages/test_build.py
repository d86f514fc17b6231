"""What a stage imports."""

import subprocess
import sys


def test_a_fold_imports_no_river() -> None:
    """Nor what River brings: half of the time and memory with which a worker starts."""
    program = (
        "import sys\n"
        "from pipeline.stages import build\n"
        "from pipeline.configuration import load\n"
        "made = build._fold(load(), None)\n"
        "print(*sorted({'river', 'scipy.stats', 'pandas'} & set(sys.modules)))"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout.strip()) == (0, ""), done.stderr
