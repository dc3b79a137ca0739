#!/usr/bin/env bash
# The C++ tests on a 64-bit Arm processor, which QEMU emulates. They need no Arm machine.
#
#   tests/aarch64.sh [FOLDER]
#
# FOLDER (build/aarch64) is where it builds. Debian's packages: g++-aarch64-linux-gnu, qemu-user-static
# and googletest, which brings GoogleTest's sources.
set -euo pipefail
cd "$(dirname "$0")/.."
mkdir -p "${1:-build/aarch64}"
folder=$(cd "${1:-build/aarch64}" && pwd)

configure() {  # source, folder below $folder, options...
    local source=$1 build=$folder/$2
    shift 2
    cmake -S "$source" -B "$build" -G Ninja -DCMAKE_BUILD_TYPE=Release \
        -DCMAKE_SYSTEM_NAME=Linux -DCMAKE_SYSTEM_PROCESSOR=aarch64 \
        -DCMAKE_C_COMPILER=aarch64-linux-gnu-gcc -DCMAKE_CXX_COMPILER=aarch64-linux-gnu-g++ \
        -DCMAKE_CROSSCOMPILING_EMULATOR='qemu-aarch64-static;-L;/usr/aarch64-linux-gnu' "$@"
}
configure /usr/src/googletest googletest -DCMAKE_INSTALL_PREFIX="$folder/installed"
cmake --build "$folder/googletest" --target install
configure . tests -DCOALESCE_TESTS=ON -DCOALESCE_PYTHON=OFF -DCOALESCE_ISAS=all \
    -DCMAKE_UNITY_BUILD=ON -DGTest_DIR="$folder/installed/lib/cmake/GTest"
cmake --build "$folder/tests"
ctest --test-dir "$folder/tests" --output-on-failure -j "$(nproc)"
