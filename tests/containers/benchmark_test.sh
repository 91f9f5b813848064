#!/usr/bin/env bash
# benchmark_test.sh ROOT CTEST: an image's `benchmark` command writes below $NOISEMARK_OUT alone, keeps ctest's exit code
# and is red when there is nothing to run. The tree under test is a copy with CTest files of its own.
set -euo pipefail
root=$1
PATH=$(dirname "$2"):$PATH
work=$(mktemp -d)
trap 'chmod -R u+w "$work"; rm -rf "$work"' EXIT
image=$work/image
mkdir -p "$image/containers" "$image/build/release/tests/benchmark" "$image/build/release/bin"
cp "$root"/containers/{entrypoint,benchmark}.sh "$image/containers/"

# program BODY: what stands where the image has its program
program() { printf '#!/bin/sh\n%s\n' "$1" >"$image/build/release/bin/noisemark" && chmod +x "$image/build/release/bin/noisemark"; }
testfile=$image/build/release/tests/benchmark/CTestTestfile.cmake

# run OUT ARGUMENT...: prints the exit code of the image's command
run() {
  local out=$1 status=0
  shift
  NOISEMARK_OUT=$out bash "$image/containers/entrypoint.sh" "$@" >"$work/log" 2>&1 || status=$?
  echo "$status"
}
expect() { [[ $1 == "$2" ]] || { echo "$3: expected $2, found $1" && cat "$work/log" && exit 1; }; }

cat >"$testfile" <<TESTS
add_test(benchmark.one "$root/tests/benchmark/run.sh" "$image/build/release/bin/noisemark" "gmm16@cpu" "none" "/nowhere")
set_tests_properties(benchmark.one PROPERTIES LABELS "benchmark" SKIP_RETURN_CODE "77")
TESTS
program 'while [ "$1" != --out ]; do shift; done; mkdir -p "$2" && echo fine >"$2/report.md"'
chmod -R a-w "$image"
expect "$(run "$work/out" benchmark)" 0 "a passing benchmark"
[[ -e $work/out/benchmark/gmm16@cpu-none/report.md ]] || { echo "no report below NOISEMARK_OUT" && exit 1; }
mkdir "$work/here" && cd "$work/here"
expect "$(run there benchmark)" 0 "a relative folder"
[[ -e $work/here/there/benchmark/gmm16@cpu-none/report.md ]] || { echo "a relative NOISEMARK_OUT is another place" && exit 1; }
chmod -R u+w "$image"

program 'exit 1'
[[ $(run "$work/out" benchmark) != 0 ]] || { echo "a failed gate was not red" && exit 1; }
program 'exit 77'
expect "$(run "$work/out" benchmark)" 0 "a benchmark that cannot run here"
grep -q Skipped "$work/log" || { echo "exit code 77 is not shown as Skipped" && exit 1; }
echo >"$testfile"
[[ $(run "$work/out" benchmark) != 0 ]] || { echo "an empty run was not red" && exit 1; }
program 'echo "arguments: $*"'
expect "$(run "$work/out")" 0 "no arguments"
grep -q -- "arguments: --help" "$work/log" || { echo "no arguments did not ask for help" && exit 1; }
expect "$(run "$work/out" list --json)" 0 "list"
grep -q "arguments: list --json" "$work/log" || { echo "arguments were not passed on" && exit 1; }
echo "the benchmark command keeps to \$NOISEMARK_OUT"
