#!/usr/bin/env bash
# gate.sh OUT tells whether this commit is a regression of another. It runs the smoke suite, then two builds in turns,
# and compares them: once each under the deterministic profile, where every figure without noise must be equal, the losses
# too; then by rounds of timed runs. A CI system calls it as docker.sh and slurm.sbatch beside it do. The exit code is the
# worst: 1 for a red test, a regression or a GPU that is gone, otherwise noisemark's own (3 not comparable, 4 inconclusive,
# ...).
#
#   NOISEMARK_BASE='COMMAND'   how the base commit's noisemark is called (required); words are split at spaces
#   NOISEMARK_NEW='COMMAND'    how this commit's is (required)
#   NOISEMARK_SMOKE='COMMAND'  what runs `ctest -L benchmark` (default: none, which is said)
#   NOISEMARK_BENCHMARKS       what both run (default: gmm16-ho)
#   NOISEMARK_ARGUMENTS        further words for both (default: none)
#   NOISEMARK_ROUNDS           timed runs of each build (default: 8; at least 6, of several benchmarks 7 or more: fewer can
#                              prove nothing, and are refused before anything runs)
#   NOISEMARK_EXACT=off        leaves out the deterministic pair: for a change that is meant to change the losses
#   NOISEMARK_REQUIRE=cuda     everything runs on a GPU, and one that is gone, also later on, is red
#
# OUT gets base/ROUND and new/ROUND (whole results) and comparison.md; exact/base and exact/new, and exact.md. The two .md
# also go to $GITHUB_STEP_SUMMARY.
set -euo pipefail

out=${1:?usage: gate.sh OUT}
rounds=${NOISEMARK_ROUNDS:-8}
read -ra base <<<"${NOISEMARK_BASE:?set it to the base commit\'s noisemark}"
read -ra new <<<"${NOISEMARK_NEW:?set it to this commit\'s noisemark}"
read -ra smoke <<<"${NOISEMARK_SMOKE:-}"
read -ra benchmarks <<<"${NOISEMARK_BENCHMARKS:-gmm16-ho}"
read -ra arguments <<<"${NOISEMARK_ARGUMENTS:-}"

# The fewest with which the gates of all benchmarks, two each, can reach 0.05 together: n rounds give p = 2^-n at best
# (reports/compare/inference.h, fewest_pairs()).
fewest_rounds() {
  local count=1
  while ((40 * ${#benchmarks[@]} >= 2 ** count)); do count=$((count + 1)); done
  echo "$count"
}

say() { printf 'gate: %s\n' "$*" >&2; }
requires_cuda() { [[ ,${NOISEMARK_REQUIRE:-}, == *,cuda,* ]]; }

# A build that knows nothing of NOISEMARK_REQUIRE must not fall back on the CPU either.
choose_device() {
  requires_cuda || return 0
  local word
  for word in "${arguments[@]}"; do
    if [[ $word == --device* ]]; then
      say "error: NOISEMARK_ARGUMENTS: $word: NOISEMARK_REQUIRE=cuda chooses the device"
      exit 2
    fi
  done
  arguments+=(--device cuda)
}

require_device() {
  requires_cuda || return 0
  if ! "${new[@]}" env --device cuda >/dev/null; then
    say "error: NOISEMARK_REQUIRE=cuda, and there is no usable GPU"
    exit 1
  fi
}

run_smoke() {
  if ((${#smoke[@]} == 0)); then
    say "smoke: left out (NOISEMARK_SMOKE is not set)"
    return 0
  fi
  say "smoke: running"
  "${smoke[@]}" || return 1
}

# run FOLDER SEED COMMAND...: a run that fails its own gates is a result too, and the comparison says so. One that leaves
# no result did not take place: with fewer pairs the rest might pass.
run() {
  local folder=$out/$1 seed=$2 id status into
  shift 2
  for id in "${benchmarks[@]}"; do
    status=0
    into=$folder/$(basename "$id" .toml)
    "$@" run "$id" --seed "$seed" --out "$into" "${arguments[@]}" "${more[@]}" >&2 || status=$?
    if ((status > 1)); then
      say "error: $folder: $id left with $status"
      ((status != 77)) || ! requires_cuda || status=1  # "cannot run here", which a CI system may take for skipped
      take "$status"
      exit "$worst"
    fi
    if [[ ! -s $into/result.json ]]; then
      say "error: $folder: $id left with $status and without a result"
      exit 1
    fi
  done
}

run_deterministic() {
  say "deterministic pair"
  require_device
  local more=(--deterministic)
  run exact/base 1 "${base[@]}"
  run exact/new 1 "${new[@]}"
}

# Rounds in turns, forth and back, so that what drifts on the machine hits both alike.
run_rounds() {
  local round more=()
  for ((round = 1; round <= rounds; ++round)); do
    say "round $round of $rounds"
    require_device
    if ((round % 2)); then
      run "base/$round" "$round" "${base[@]}"
      run "new/$round" "$round" "${new[@]}"
    else
      run "new/$round" "$round" "${new[@]}"
      run "base/$round" "$round" "${base[@]}"
    fi
  done
}

# compare FOLDER FILE [OPTION]: BASE and NEW in FOLDER, into FILE and to where people look; the exit code is noisemark's.
compare() {
  local status=0
  "${new[@]}" compare "$1/base" "$1/new" "${@:3}" >"$2" || status=$?
  cat "$2"
  [[ -z ${GITHUB_STEP_SUMMARY:-} ]] || cat "$2" >>"$GITHUB_STEP_SUMMARY"
  return "$status"
}

# take STATUS: a red test or a regression wins, then what came first.
worst=0
take() {
  if (($1 == 1 || worst == 0)); then worst=$1; fi
}

least=$(fewest_rounds)
if [[ ! $rounds =~ ^[1-9][0-9]{0,3}$ ]] || ((rounds < least)); then
  say "error: NOISEMARK_ROUNDS: $rounds (a number from $least: fewer can prove nothing of ${#benchmarks[@]} benchmark(s))"
  exit 2
fi
if [[ -e $out && -n $(ls -A "$out") ]]; then
  say "error: $out: holds something already (a new or empty folder)"
  exit 2
fi
mkdir -p "$out"
choose_device
require_device
status=0
run_smoke || status=1
((status == 0)) || say "error: the smoke suite is red"
take "$status"
if [[ ${NOISEMARK_EXACT:-} == off ]]; then
  say "deterministic pair: left out (NOISEMARK_EXACT=off)"
else
  run_deterministic
  status=0
  compare "$out/exact" "$out/exact.md" --exact || status=$?
  say "the deterministic pair's comparison left with $status"
  take "$status"
fi
run_rounds
status=0
compare "$out" "$out/comparison.md" || status=$?
say "compare left with $status"
take "$status"
exit "$worst"
