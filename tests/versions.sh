#!/usr/bin/env bash
# The tests that touch what coalesce depends on, with other versions of Python and of the packages.
#
#   tests/versions.sh PYTHON lowest|highest [WHEEL]
#
# PYTHON is a version (3.10) or a path. "lowest" installs the lowest version that pyproject.toml
# allows of every dependency, "highest" the newest. WHEEL is a wheel of coalesce for that Python;
# without it, one is built. Needs uv; compiles nothing if WHEEL is given.
set -euo pipefail
cd "$(dirname "$0")/.."
python=$1 versions=$2 wheel=${3:-}
case $versions in
    # Old packages use what newer ones below them deprecate; those below are not ours to limit.
    lowest) resolution=lowest-direct warnings=(-W ignore::DeprecationWarning) ;;
    highest) resolution=highest warnings=() ;;
    *) echo "the versions are lowest or highest, not $versions" >&2; exit 2 ;;
esac

work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
uv venv -q --python "$python" "$work/venv"
export VIRTUAL_ENV=$work/venv
if [ -z "$wheel" ]; then
    uv build -q --wheel --python "$work/venv" -o "$work"
    wheel=$(echo "$work"/*.whl)
fi
uv pip install -q --resolution "$resolution" -r pyproject.toml --group test
uv pip install -q --no-deps "$wheel"
uv pip list | grep -iE '^(cuda|numpy|rich|nvidia|pytest|hypothesis|distributed|matplotlib|i(py|python)|nbclient)'

"$work/venv/bin/python" -m pytest -n auto "${warnings[@]}" \
    tests/python/{arrays/test_{arguments,interop},cli/test_{cli,magic},compile/test_{cache,compile},package/test_{pickle,types},pictures/test_plots}.py
