#!/usr/bin/env bash
# ci_test.sh ROOT: .ci/run and setup.sh's `test` say how long each of their stages took, also when a later one fails;
# setup.sh's `nightly` runs what `test` leaves out. They run in a copy of the tree where what they call does nothing.
set -euo pipefail
root=$1
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
mkdir -p "$work/tree/.ci" "$work/tree/torch" "$work/bin"
cp "$root/.ci/run" "$work/tree/.ci/"
cp -r "$root/containers" "$work/tree/"
for tool in cmake dpkg-query; do printf '#!/bin/sh\necho "ii "\n' >"$work/bin/$tool"; done
printf '#!/bin/sh\necho "ctest: $*"\nexit "${CTEST_STATUS:-0}"\n' >"$work/bin/ctest"
chmod +x "$work"/bin/*

# run VARIABLE=VALUE SCRIPT [WORD]...: prints the exit code
run() {
  local status=0 variable=$1 script=$2
  shift 2
  env PATH="$work/bin:$PATH" NOISEMARK_TORCH_ROOT="$work/tree/torch" NOISEMARK_CUDA=OFF NOISEMARK_CIFAR10=/nowhere \
    "$variable" bash "$work/tree/$script" "$@" >"$work/log" 2>&1 || status=$?
  echo "$status"
}
fail() { echo "$1" && cat "$work/log" && exit 1; }

[[ $(run CTEST_STATUS=0 .ci/run) == 0 ]] || fail "not green"
for stage in set-up build tests "build without CUDA" "tests without CUDA" all; do
  grep -Eq "^ci: $stage [0-9]+ s$" "$work/log" || fail "no time of: $stage"
done
[[ $(run CTEST_STATUS=8 .ci/run) != 0 ]] || fail "failed tests are not red"
grep -Eq '^ci: build [0-9]+ s$' "$work/log" || fail "after a failure the times are not said"
for pair in "test:--label-exclude" "nightly:--label-regex"; do
  [[ $(run CTEST_STATUS=8 containers/setup.sh "${pair%:*}") == 8 ]] || fail "${pair%:*}: failed tests are not red"
  grep -Eq "^ctest: --preset cpu ${pair#*:} \^nightly\\\$( |$)" "$work/log" || fail "${pair%:*}: not the tests that it names"
done
echo "every stage says how long it took, and nightly runs what test leaves out"
