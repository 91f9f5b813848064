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

# program NAME: makes $programs/NAME of the shell code on stdin, in which $noisemark is the real one
programs=$work/programs
mkdir "$programs"
program() {
  { printf '#!/usr/bin/env bash\nset -euo pipefail\nnoisemark=%q\n' "$noisemark" && cat; } >"$programs/$1"
  chmod +x "$programs/$1"
}

# Two rounds of one program against itself: too few to prove anything, which is refused, and nothing is hidden.
expect 2 "$(gate same NOISEMARK_ROUNDS=2)" "the same program twice"
grep -q '^# too few pairs' "$work/same/comparison.md" || fail "no comparison"
cmp -s <(cat "$work/same/exact.md" "$work/same/comparison.md") "$work/summary" || fail "the summary is not both comparisons"
for side in base new; do
  for round in 1 2; do
    "$noisemark" check "$work/same/$side/$round/gmm16" >/dev/null || fail "$side/$round is not a whole result"
    grep -q '"changed while it ran": "' "$work/same/$side/$round/gmm16/result.json" || fail "nobody looked at the machine again"
  done
done
grep -q 'smoke: left out' "$work/log" || fail "does not say that the smoke suite was left out"

# The deterministic pair is a comparison of its own, in which the losses are equal bit for bit.
for side in base new; do
  grep -q '"deterministic": true' "$work/same/exact/$side/gmm16/result.json" || fail "exact/$side is not deterministic"
  grep -q '"deterministic": false' "$work/same/$side/1/gmm16/result.json" || fail "the timed rounds are deterministic"
done
grep -q '| loss trace .*| equivalent ' "$work/same/exact.md" || fail "the deterministic pair's losses were not compared"

# What is worse wins over a comparison of too few pairs.
expect 1 "$(gate red NOISEMARK_EXACT=off NOISEMARK_SMOKE=false)" "a red smoke suite"
expect 1 "$(gate red-and-worse NOISEMARK_EXACT=off NOISEMARK_SMOKE=false NOISEMARK_BENCHMARKS=gmm17)" "a red suite before a run that cannot begin"
expect 2 "$(gate green NOISEMARK_EXACT=off NOISEMARK_SMOKE=true)" "a green smoke suite"
[[ ! -e $work/green/exact ]] || fail "NOISEMARK_EXACT=off makes the deterministic pair all the same"

# A build whose losses are others, told by one digit of their digest and nothing else: a regression, unless it is wanted.
program changed <<'PROGRAM'
"$noisemark" "$@"
[[ $1 == run && " $* " == *" --deterministic "* ]] || exit 0
while [[ $1 != --out ]]; do shift; done
file=$2/result.json
sed -i -E "s/(\"loss_trace_sha256\": \").{4}/\10000/; s/(\"checksum\": \")[0-9a-f]{64}/\1$(printf '0%.0s' {1..64})/" "$file"
sum=$(sha256sum "$file")
sed -i -E "s/(\"checksum\": \")0{64}/\1${sum%% *}/" "$file"
PROGRAM
expect 1 "$(gate changed NOISEMARK_NEW="$programs/changed")" "other losses"
grep -q '| loss trace .*\*\*REGRESSION\*\*' "$work/changed/exact.md" || fail "it was not the losses"
expect 2 "$(gate wanted NOISEMARK_EXACT=off NOISEMARK_NEW="$programs/changed")" "other losses that are wanted"

# Another batch is other work: not comparable, and never a pass.
program other <<'PROGRAM'
[[ $1 != run ]] || set -- "$@" --set train.batch=4
exec "$noisemark" "$@"
PROGRAM
expect 3 "$(gate other-batch NOISEMARK_EXACT=off NOISEMARK_NEW="$programs/other")" "another batch"

# A run that cannot begin leaves with its own code, and results are never overwritten.
expect 2 "$(gate unknown NOISEMARK_BENCHMARKS=gmm17)" "an unknown benchmark"
expect 2 "$(gate same)" "a folder that holds results"
expect 2 "$(gate rounds NOISEMARK_ROUNDS=0)" "no rounds"

# A program whose GPU, for which the CPU stands in here, is there for as many runs as the file `runs` says. Then the real
# program meets a machine without one.
program gpu <<'PROGRAM'
runs=$(<"${0%/*}/runs")
((runs > 0)) || CUDA_VISIBLE_DEVICES="" exec "$noisemark" "$@"
[[ $1 != run ]] || echo "$((runs - 1))" >"${0%/*}/runs"
words=()
for word in "$@"; do
  [[ $word != cuda ]] || word=cpu
  words+=("$word")
done
exec env -u NOISEMARK_REQUIRE "$noisemark" "${words[@]}"
PROGRAM
# with_gpu RUNS OUT [VARIABLE=VALUE]...: prints the exit code
with_gpu() {
  echo "$1" >"$programs/runs"
  gate "$2" NOISEMARK_REQUIRE=cuda NOISEMARK_ROUNDS=2 NOISEMARK_BASE="$programs/gpu" NOISEMARK_NEW="$programs/gpu" \
    NOISEMARK_ARGUMENTS="${tiny#--device cpu }" "${@:3}"
}
expect 2 "$(with_gpu 6 stays)" "a GPU that stays, and too few rounds"

# One that is gone is red: before anything runs, between two rounds, and within the last one.
expect 1 "$(with_gpu 0 gone)" "no GPU"
grep -q 'there is no usable GPU' "$work/log" || fail "does not name the GPU"
[[ ! -e $work/gone/base && ! -e $work/gone/exact ]] || fail "something ran all the same"
expect 1 "$(with_gpu 2 gone-between NOISEMARK_EXACT=off)" "a GPU that goes between two rounds"
grep -q 'there is no usable GPU' "$work/log" || fail "does not look for the GPU before every round"
expect 1 "$(with_gpu 3 gone-within NOISEMARK_EXACT=off)" "a GPU that goes within a round"
grep -q 'without a result' "$work/log" || fail "does not say that the run did not take place"

# Nor does a build that knows nothing of NOISEMARK_REQUIRE run on the CPU instead.
program older <<'PROGRAM'
[[ $1 != env ]] || exit 0
CUDA_VISIBLE_DEVICES="" exec env -u NOISEMARK_REQUIRE "$noisemark" "$@"
PROGRAM
expect 1 "$(with_gpu 6 older NOISEMARK_BASE="$programs/older")" "a base that needs no GPU"
expect 2 "$(gate device NOISEMARK_REQUIRE=cuda)" "a device of one's own beside NOISEMARK_REQUIRE"
echo "the gate tells a pass from all that is none"
