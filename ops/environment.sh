# Sourced by ops/demo and ops/test: a virtual environment of the checkout's own, with the project in it.
#
#     environment FOLDER EXTRA    makes or updates FOLDER and installs the project (`.EXTRA`) into it, editable
#
# A stamp in the folder says what was installed for which Python, checkout and pyproject.toml. While it fits, nothing is
# done. What is said goes to standard error.

fail() {
    printf '%s\n' "$*" >&2
    exit 1
}

# Prints the first Python that is new enough.
find_python() {
    local candidate
    for candidate in "${PYTHON:-python3}" python3.13 python3.12 python3.11; do
        if "$candidate" -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null; then
            command -v "$candidate"
            return
        fi
    done
    fail "expected Python 3.11 or newer as python3 (or in the variable PYTHON); found $(
        python3 --version 2>/dev/null || echo none
    ). Install one, e.g. on Debian or Ubuntu: apt-get install python3 python3-venv"
}

environment() {
    local folder="$1" extra="$2" python stamp
    python="$(find_python)"
    stamp="$("$python" - "$PWD" "$extra" <<'PYTHON'
import hashlib, pathlib, sys

parts = [sys.version, sys.executable, *sys.argv[1:], pathlib.Path("pyproject.toml").read_text(encoding="utf-8")]
print(hashlib.sha256("\0".join(parts).encode()).hexdigest())
PYTHON
)"
    if [[ -x "$folder/bin/python" && "$(cat "$folder/installed" 2>/dev/null)" == "$stamp" ]]; then
        return
    fi
    if ! "$python" -c 'import ensurepip, venv' 2>/dev/null; then
        fail "expected the venv module in $python; it is missing. On Debian or Ubuntu: apt-get install python3-venv"
    fi
    echo "installing Glasstream and its dependencies into ${folder} (again only when pyproject.toml changes) ..." >&2
    # Made anew: what an older pyproject.toml or another checkout or Python left there would stay otherwise.
    "$python" -m venv --clear "$folder"
    "$folder/bin/python" -m pip install --quiet --disable-pip-version-check --editable ".${extra}" >&2
    echo "$stamp" > "$folder/installed"
}
