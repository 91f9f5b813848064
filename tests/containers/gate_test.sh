#!/usr/bin/env bash
# gate_test.sh ROOT NOISEMARK: containers/ci/gate.sh with the real program: what it leaves, what it says, and how it ends.
# Only the timed runs are not made here: they are the recorded ones of suite/selftest, which the real program compares.
set -euo pipefail
root=$1 noisemark=$2
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
tiny="--device cpu --threads 1 --set train.steps=2 --set train.batch=2 --set eval.samples=8 --no-profile"
rounds=16  # all that were recorded: the twins pass

# gate OUT [VARIABLE=VALUE]...: prints the exit code
gate() {
  local out=$work/$1 status=0
  shift
  env -u NOISEMARK_REQUIRE NOISEMARK_BASE="$programs/recorded" NOISEMARK_NEW="$programs/recorded" \
    NOISEMARK_BENCHMARKS=gmm16 NOISEMARK_ARGUMENTS="$tiny" NOISEMARK_ROUNDS="$rounds" \
    GITHUB_STEP_SUMMARY="$work/summary" "$@" bash "$root/containers/ci/gate.sh" "$out" >"$work/log" 2>&1 || status=$?
  echo "$status"
}
fail() { echo "$1" && cat "$work/log" && exit 1; }
# expect CODE FOUND WORDS
expect() { [[ $1 == "$2" ]] || fail "$3: left with $2, not $1"; }

# program NAME: makes $programs/NAME of the shell code on stdin, which may use what is defined before it: $noisemark, the
# real program; $out, what is behind --out; and reseal FILE, the checksum of a changed result made again.
programs=$work/programs
mkdir "$programs"
program() {
  {
    printf '#!/usr/bin/env bash\nset -euo pipefail\nnoisemark=%q recordings=%q\n' "$noisemark" "$root/suite/selftest/recorded"
    cat <<'SHELL'
out=""
for ((i = 1; i < $#; ++i)); do [[ ${!i} != --out ]] || { j=$((i + 1)) && out=${!j}; }; done
reseal() {
  sed -i -E "s/(\"checksum\": \")[0-9a-f]{64}/\1$(printf '0%.0s' {1..64})/" "$1"
  local sum
  sum=$(sha256sum "$1")
  sed -i -E "s/(\"checksum\": \")0{64}/\1${sum%% *}/" "$1"
}
SHELL
    cat
  } >"$programs/$1"
  chmod +x "$programs/$1"
}

# A timed run leaves SIDE/ROUND of what was recorded; the real program makes all others.
program recorded <<'PROGRAM'
[[ $1 == run && " $* " != *" --deterministic "* ]] || exec "$noisemark" "$@"
side=$(basename "$(dirname "$(dirname "$out")")")
mkdir -p "$out"
cp "$recordings/$side/$(printf %02d "$(basename "$(dirname "$out")")")/result.json" "$out/"
PROGRAM

# The same program twice passes, and nothing is hidden.
expect 0 "$(gate same)" "the same program twice"
grep -qE '^# (EQUIVALENT|IMPROVED|NOT WORSE)' "$work/same/comparison.md" || fail "no comparison that passed"
grep -qE '^# (EQUIVALENT|IMPROVED|NOT WORSE)' "$work/same/exact.md" || fail "no exact comparison that passed"
cmp -s <(cat "$work/same/exact.md" "$work/same/comparison.md") "$work/summary" || fail "the summary is not both comparisons"
for side in base new; do
  [[ -s $work/same/$side/$rounds/gmm16/result.json && ! -e $work/same/$side/$((rounds + 1)) ]] || fail "$side: not $rounds rounds"
done
grep -q 'smoke: left out' "$work/log" || fail "does not say that the smoke suite was left out"

# The deterministic pair are whole results of the real program, in which the losses are equal bit for bit.
for side in base new; do
  "$noisemark" check "$work/same/exact/$side/gmm16" >/dev/null || fail "exact/$side is not a whole result"
  grep -q '"deterministic": true' "$work/same/exact/$side/gmm16/result.json" || fail "exact/$side is not deterministic"
  grep -q '"deterministic": false' "$work/same/$side/1/gmm16/result.json" || fail "the timed rounds are deterministic"
  grep -q '"changed while it ran": "' "$work/same/exact/$side/gmm16/result.json" || fail "nobody looked at the machine again"
done
grep -q '| loss trace .*| equivalent ' "$work/same/exact.md" || fail "the deterministic pair's losses were not compared"

# Too few rounds can prove nothing, and are refused before anything runs; of two benchmarks one more is needed.
for few in 0 5 x 1x; do
  expect 2 "$(gate few NOISEMARK_ROUNDS=$few)" "$few rounds"
  [[ ! -e $work/few ]] || fail "something ran all the same"
done
grep -q 'NOISEMARK_ROUNDS: 1x (a number from 6: ' "$work/log" || fail "does not say how many are needed"
expect 2 "$(gate few NOISEMARK_ROUNDS=6 NOISEMARK_BENCHMARKS='gmm16 gmm16-ho')" "6 rounds of two benchmarks"
grep -q 'NOISEMARK_ROUNDS: 6 (a number from 7: ' "$work/log" || fail "does not count the benchmarks"

# The worse one wins.
expect 1 "$(gate red NOISEMARK_EXACT=off NOISEMARK_SMOKE=false)" "a red smoke suite"
cannot_begin=(NOISEMARK_EXACT=off NOISEMARK_SMOKE=false NOISEMARK_BENCHMARKS=gmm17 NOISEMARK_BASE="$noisemark")
expect 1 "$(gate red-and-worse "${cannot_begin[@]}")" "a red suite before a run that cannot begin"
expect 0 "$(gate green NOISEMARK_EXACT=off NOISEMARK_SMOKE=true)" "a green smoke suite"
[[ ! -e $work/green/exact ]] || fail "NOISEMARK_EXACT=off makes the deterministic pair all the same"

# Six rounds of these are too noisy to prove anything, and that is no pass.
expect 4 "$(gate six NOISEMARK_EXACT=off NOISEMARK_ROUNDS=6)" "six noisy rounds"

# A build whose losses are others, told by one digit of their digest and nothing else: a regression, unless it is wanted.
program changed <<'PROGRAM'
"${0%/*}/recorded" "$@"
[[ $1 == run && " $* " == *" --deterministic "* ]] || exit 0
sed -i -E "s/(\"loss_trace_sha256\": \").{4}/\10000/" "$out/result.json"
reseal "$out/result.json"
PROGRAM
expect 1 "$(gate changed NOISEMARK_NEW="$programs/changed")" "other losses"
grep -q '| loss trace .*\*\*REGRESSION\*\*' "$work/changed/exact.md" || fail "it was not the losses"
expect 0 "$(gate wanted NOISEMARK_EXACT=off NOISEMARK_NEW="$programs/changed")" "other losses that are wanted"

# More threads are other work: not comparable, and never a pass.
program other <<'PROGRAM'
"${0%/*}/recorded" "$@"
[[ $1 == run ]] || exit 0
sed -i -E 's/^(    "threads": )1,/\12,/' "$out/result.json"
reseal "$out/result.json"
PROGRAM
expect 3 "$(gate other-work NOISEMARK_EXACT=off NOISEMARK_NEW="$programs/other")" "other work"
grep -q 'differs in identity.threads' "$work/other-work/comparison.md" || fail "does not say in what"

# A run that cannot begin leaves with its own code, and results are never overwritten.
expect 2 "$(gate unknown NOISEMARK_BENCHMARKS=gmm17)" "an unknown benchmark"
expect 2 "$(gate same)" "a folder that holds results"

# A program whose GPU, for which the CPU stands in here, is there for as many runs as the file `runs` says. Then the real
# program meets a machine without one.
program gpu <<'PROGRAM'
runs=$(<"${0%/*}/runs")
((runs > 0)) || CUDA_VISIBLE_DEVICES="" exec "$noisemark" "$@"
[[ $1 != env ]] || exit 0
[[ $1 != run ]] || echo "$((runs - 1))" >"${0%/*}/runs"
words=()
for word in "$@"; do
  [[ $word != cuda ]] || word=cpu
  words+=("$word")
done
exec env -u NOISEMARK_REQUIRE "${0%/*}/recorded" "${words[@]}"
PROGRAM
# with_gpu RUNS OUT [VARIABLE=VALUE]...: prints the exit code
with_gpu() {
  echo "$1" >"$programs/runs"
  gate "$2" NOISEMARK_REQUIRE=cuda NOISEMARK_BASE="$programs/gpu" NOISEMARK_NEW="$programs/gpu" \
    NOISEMARK_ARGUMENTS="${tiny#--device cpu }" "${@:3}"
}
expect 0 "$(with_gpu $((2 + 2 * rounds)) stays)" "a GPU that stays"

# One that is gone is red: before anything runs, between two rounds, and within one.
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
