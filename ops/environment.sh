# A virtual environment inside the checkout with the project in it. ops/demo, ops/check and ops/test source this file.
#
#     environment FOLDER EXTRA [VERSION]    make or update FOLDER and install the project (`.EXTRA`) into it, editable
#
# VERSION (for example 3.13) selects exactly that Python. Without it, any Python that is new enough is used. With an
# EXTRA, the laboratory is installed too.
#
# A stamp in the folder records the Python, the checkout and the pyproject.toml of the installation. If they have not
# changed, nothing is done. Messages go to standard error.

# Demo and tests start many processes. Without bytecode files, each of them compiles all modules again.
unset PYTHONDONTWRITEBYTECODE

fail() {
    printf '%s\n' "$*" >&2
    exit 1
}

# Print the first Python that is new enough, or the first one of the requested version.
find_python() {
    local candidate version="${1:-}"
    if [[ -n "$version" ]]; then
        for candidate in "${PYTHON:-python$version}" "python$version" python3; do
            if "$candidate" -c 'import sys; sys.exit("%d.%d" % sys.version_info[:2] != sys.argv[1])' "$version" \
                2>/dev/null; then
                command -v "$candidate"
                return
            fi
        done
        fail "expected Python ${version} as python${version} (or in the variable PYTHON), found none. CONTRIBUTING.md" \
            "says how to unpack one of another release of Debian"
    fi
    for candidate in "${PYTHON:-python3}" python3.14 python3.13 python3.12 python3.11; do
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
    python="$(find_python "${3:-}")"
    stamp="$("$python" - "$PWD" "$extra" <<'PYTHON'
import hashlib, pathlib, sys

projects = ("pyproject.toml", "pipeline/glasstream_lab/pyproject.toml")
parts = [sys.version, sys.executable, *sys.argv[1:], *(pathlib.Path(one).read_text("utf-8") for one in projects)]
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
    # Create it again: otherwise, packages of an older pyproject.toml, or of another checkout or Python, would stay.
    "$python" -m venv --clear "$folder"
    "$folder/bin/python" -m pip install --quiet --disable-pip-version-check --editable ".${extra}" \
        ${extra:+--editable pipeline/glasstream_lab} >&2
    echo "$stamp" > "$folder/installed"
}
