#!/usr/bin/env bash
# Runs `ctest -L benchmark` from an image whose root may be read-only: CTest's own files are copied to $NOISEMARK_OUT,
# and it writes there, as the tests do. Arguments go to ctest.
set -euo pipefail

root=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
out=$(realpath -m "${NOISEMARK_OUT:?set it to a folder that can be written}")
if ! mkdir -p "$out/ctest"; then
  echo "benchmark: $out: cannot be written; mount a folder there" >&2
  exit 74
fi
cp "$root/build/release/tests/benchmark/CTestTestfile.cmake" "$out/ctest/"
cd "$out/ctest"
export NOISEMARK_OUT=$out
status=0
ctest -L '^benchmark$' --no-tests=error --output-on-failure "$@" || status=$?
echo "benchmark: reports are in $out/benchmark"
exit "$status"
