#!/usr/bin/env bash
# gate_test.sh ROOT NOISEMARK: containers/ci/gate.sh with the real program: what it leaves, what it says, and how it ends.
set -euo pipefail
root=$1 noisemark=$2
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
tiny="--device cpu --threads 1 --set train.steps=2 --set train.batch=2 --set eval.samples=8 --no-profile"

# gate OUT [VARIABLE=VALUE]...: prints the exit code
gate() {
  local out=$work/$1 status=0
  shift
  env -u NOISEMARK_REQUIRE NOISEMARK_BASE="$noisemark" NOISEMARK_NEW="$noisemark" NOISEMARK_BENCHMARKS=gmm16 \
    NOISEMARK_ARGUMENTS="$tiny" NOISEMARK_ROUNDS=1 GITHUB_STEP_SUMMARY="$work/summary" "$@" \
    bash "$root/containers/ci/gate.sh" "$out" >"$work/log" 2>&1 || status=$?
  echo "$status"
}
fail() { echo "$1" && cat "$work/log" && exit 1; }
# expect CODE FOUND WORDS
expect() { [[ $1 == "$2" ]] || fail "$3: left with $2, not $1"; }

# Two rounds of one program against itself: too few to prove anything, which is refused, and nothing is hidden.
expect 2 "$(gate same NOISEMARK_ROUNDS=2)" "the same program twice"
grep -q '^# too few pairs' "$work/same/comparison.md" || fail "no comparison"
cmp -s "$work/same/comparison.md" "$work/summary" || fail "the summary is not the comparison"
for side in base new; do
  for round in 1 2; do
    "$noisemark" check "$work/same/$side/$round/gmm16" >/dev/null || fail "$side/$round is not a whole result"
  done
done
grep -q 'smoke: left out' "$work/log" || fail "does not say that the smoke suite was left out"

# What is worse wins over a comparison of too few pairs.
expect 1 "$(gate red NOISEMARK_SMOKE=false)" "a red smoke suite"
expect 2 "$(gate green NOISEMARK_SMOKE=true)" "a green smoke suite"

# Another batch is other work: not comparable, and never a pass.
# shellcheck disable=SC2016
printf '#!/bin/sh\n[ "$1" != run ] || set -- "$@" --set train.batch=4\nexec "%s" "$@"\n' "$noisemark" >"$work/other"
chmod +x "$work/other"
expect 3 "$(gate other-batch NOISEMARK_NEW="$work/other")" "another batch"

# A run that cannot begin leaves with its own code, and results are never overwritten.
expect 2 "$(gate unknown NOISEMARK_BENCHMARKS=gmm17)" "an unknown benchmark"
expect 2 "$(gate same)" "a folder that holds results"
expect 2 "$(gate rounds NOISEMARK_ROUNDS=0)" "no rounds"

# A GPU that is gone is red before anything runs.
if ! "$noisemark" env --device cuda >/dev/null 2>&1; then
  expect 1 "$(gate gone NOISEMARK_REQUIRE=cuda)" "no GPU"
  grep -q 'there is no usable GPU' "$work/log" || fail "does not name the GPU"
  [[ ! -e $work/gone/base ]] || fail "something ran all the same"
fi
echo "the gate tells a pass from all that is none"
