#!/usr/bin/env bash
# suites_test.sh ROOT CTEST FIXTURE: add_suites.cmake makes one ctest test of each suite of the executable FIXTURE; one that
# skips everything is Skipped, one that fails names the test, two executables cannot share a suite, and a nightly test that
# the executable does not have is red while the others run.
set -euo pipefail
root=$1 ctest=$2 fixture=$3
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

# suites EXECUTABLE: CTest's file of a build that has the executable
suites() {
  printf 'include("%s/containers/cmake/add_suites.cmake")\n' "$root"
  printf "noisemark_add_suites(\"%s\" FOLDER \"$work/lists\" LABELS unit devices TIMEOUT 60 ENVIRONMENT \"A=1;B=2\" LOCK \"\" EACH Split)\n" "$@"
}
run() { (cd "$work" && "$ctest" --output-on-failure "$@") >"$work/log" 2>&1 || true; }
fail() { echo "$1" && cat "$work/log" && exit 1; }
expect() { grep -Eq -- "$1" "$work/log" || fail "not found: $1"; }

suites "$fixture" >"$work/CTestTestfile.cmake"
run
expect ' Mixed \.+ +Passed'  # without a place to keep the list
mkdir "$work/lists"
run
grep -q '^Mixed' "$work/lists/$(basename "$fixture")_list.txt" || fail "the list of suites is not where it belongs"
[[ ! -e /$(basename "$fixture")_list.txt ]] || fail "ctest wrote into the root of the file system"
expect ' Mixed \.+ +Passed'
expect ' Idle \.+\*+Skipped'
expect ' Red \.+\*+Failed'
expect 'FAILED  \] Red.fails'
expect 'OK \] Red.runs_after_the_failure'
expect ' Crash \.+.*(Failed|aborted)'
expect 'RUN      \] Crash.leaves_at_once'
expect ' Split.one \.+ +Passed'
expect ' Split.other \.+\*+Skipped'
expect ' Typed \.+ +Passed'
expect ' Some/Valued \.+ +Passed'
expect '2 tests failed out of 8'

run -V -R '^(Typed|Some/Valued)$'
[[ $(grep -c 'OK \] Typed/[0-2].passes' "$work/log") == 3 ]] || fail "not every type was tested"
[[ $(grep -c 'OK \] Some/Valued.passes/[0-2]' "$work/log") == 3 ]] || fail "not every value was tested"

for label in unit devices; do
  run -L "^$label\$"
  expect 'out of 8'
done

cp "$fixture" "$work/twin"
suites "$fixture" "$work/twin" >"$work/CTestTestfile.cmake"
run
expect 'two executables have the suite Mixed'

suites "$fixture" | sed 's/EACH Split/EACH Split NIGHTLY Split.one Split.newer/' >"$work/CTestTestfile.cmake"
run -LE '^nightly$'
expect 'HAS_NO_Split.newer .*Not Run'
expect ' Split.other \.+\*+Skipped'
! grep -q ' Split.one ' "$work/log" || fail "a nightly test ran by day"

suites "$work/missing" >"$work/CTestTestfile.cmake"
run
expect 'missing_NOT_BUILT .*Not Run'

"$fixture" --gtest_filter=No.such >"$work/log" && fail "a filter that selects nothing is not red"
echo "every suite is a test"
