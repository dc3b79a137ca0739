#!/usr/bin/env bash
# What takes too long for every change: the fuzz targets under AddressSanitizer and
# UndefinedBehaviorSanitizer for ten minutes each, the simulator's tests with every instruction set
# under the same sanitizers, launches beside launches under ThreadSanitizer and, where the package is
# installed, 5,000 wrong calls, the variables of 1,000 stepped kernels, half an hour of calls with
# every shape, half an hour of misuses of CUDA's API, 500 random files, half an hour of random kernels
# in all modes and a soak of SOAK_MINUTES (60). Then the tests of tests/versions.sh with every Python
# that is installed. Each ends after a time by the clock, so that a hang is found, too. The last
# lines are the report;
# docs/reliability.md has those of the last run.
#
#   tests/nightly.sh [SECONDS] [SEED] [FOLDER]
#
# SECONDS (600) is for each fuzz target. SEED (today's date) makes the same texts again. FOLDER
# (build/nightly) is where it builds; a text that ends a fuzz target lies there as last.ptx or
# last.sass.
set -euo pipefail
cd "$(dirname "$0")/.."
seconds=${1:-600} seed=${2:-$(date +%Y%m%d)} folder=${3:-build/nightly}

build() {  # name, sanitizers, instruction sets, targets...
    local name=$1 sanitizers=$2 sets=$3
    shift 3
    cmake -S . -B "$folder/$name" -G Ninja -DCMAKE_BUILD_TYPE=RelWithDebInfo \
        -DCMAKE_CXX_FLAGS_RELWITHDEBINFO='-O1 -g1' -DCOALESCE_TESTS=ON -DCOALESCE_PYTHON=OFF \
        -DCOALESCE_ISAS="$sets" -DCOALESCE_SANITIZE="$sanitizers"
    cmake --build "$folder/$name" --target "$@"
}
build addresses address,undefined generic fuzz_ptx fuzz_sass
build sets address,undefined all test_sim test_sass
build threads thread generic threads

report=$folder/report.txt
: >"$report"
run() {  # seconds it may take, command...
    local limit=$1
    shift
    {
        printf '\n$ %s\n' "${*#"$folder"/}"
        timeout --kill-after=60 "$limit" "$@" || {
            local status=$?
            [ $status -lt 124 ] || printf 'ended with status %s; it may take %s s\n' $status "$limit"
            return $status
        }
    } 2>&1 | tee -a "$report"
}
export FUZZ_PTX_LAST=$folder/last.ptx FUZZ_SASS_LAST=$folder/last.sass
run $((seconds + 300)) "$folder/addresses/tests/cpp/fuzz_ptx" "${seconds}s" "$seed"
run $((seconds + 300)) "$folder/addresses/tests/cpp/fuzz_sass" "${seconds}s" "$seed"
run 600 "$folder/sets/tests/cpp/test_sim" --gtest_brief=1
run 600 "$folder/sets/tests/cpp/test_sass" --gtest_brief=1
run 3600 "$folder/threads/tests/cpp/threads" 20
if python -c 'import coalesce' 2>/dev/null; then
    export PYTHONPATH=tools
    run 7200 python tests/wrong_calls.py --calls 5000 --seed "$seed"
    run 3600 python tests/stepped_kernels.py --count 1000 --first "${seed}0000"
    run 2100 python tests/every_shape.py --seconds 1800 --first "${seed}00000"
    run 2400 coalesce run tests/kernels/error_codes.cu --option=-lcuda -- 1800 "$seed"
    run 3600 python tests/random_files.py --first "${seed}000" --count 500
    run 2100 python tests/typed_kernels.py --ends --seconds 1800 --first "${seed}00000" --count 100000
    minutes=${SOAK_MINUTES:-60}
    run $((60 * minutes + 1200)) python tools/soak.py --minutes "$minutes" --seed "$seed"
else
    printf '\nno wrong calls and no soak: coalesce is not installed\n' | tee -a "$report"
fi
for minor in 10 11 12 13 14; do  # every Python that is installed, with the newest packages
    if "python3.$minor" -c '' 2>/dev/null; then
        run 3600 tests/versions.sh "$(command -v "python3.$minor")" highest
    fi
done

printf '\ncommit %s, %s, %s cores, %s\n' "$(git describe --always --dirty 2>/dev/null || echo unknown)" \
    "$(uname -m)" "$(nproc)" "$(date -u +%Y-%m-%d)"
cat "$report"
