#!/usr/bin/env bash
# Is this commit a regression of another? gate.sh OUT: runs the smoke suite, then two builds in turns, and compares them.
# What a CI system calls; github-actions.yml, gitlab-ci.yml and slurm.sbatch beside it show how. The exit code is the worst:
# 1 for a red test or a regression, otherwise noisemark's own (3 not comparable, 4 inconclusive, ...).
#
#   NOISEMARK_BASE='COMMAND'   how the base commit's noisemark is called (required); words are split at spaces
#   NOISEMARK_NEW='COMMAND'    how this commit's is (required)
#   NOISEMARK_SMOKE='COMMAND'  what runs `ctest -L benchmark` (default: none, which is said)
#   NOISEMARK_BENCHMARKS       what both run (default: gmm16-ho)
#   NOISEMARK_ARGUMENTS        further words for both (default: none)
#   NOISEMARK_ROUNDS           runs of each build (default: 8; fewer than 6 can prove nothing)
#   NOISEMARK_REQUIRE=cuda     a missing GPU is red, and nothing runs on the CPU instead
#
# OUT gets base/ROUND and new/ROUND (whole results) and comparison.md; the latter also goes to $GITHUB_STEP_SUMMARY.
set -euo pipefail

out=${1:?usage: gate.sh OUT}
rounds=${NOISEMARK_ROUNDS:-8}
read -ra base <<<"${NOISEMARK_BASE:?set it to the base commit\'s noisemark}"
read -ra new <<<"${NOISEMARK_NEW:?set it to this commit\'s noisemark}"
read -ra smoke <<<"${NOISEMARK_SMOKE:-}"
read -ra benchmarks <<<"${NOISEMARK_BENCHMARKS:-gmm16-ho}"
read -ra arguments <<<"${NOISEMARK_ARGUMENTS:-}"

say() { printf 'gate: %s\n' "$*" >&2; }

require_device() {
  [[ ${NOISEMARK_REQUIRE:-} == cuda ]] || return 0
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

# run SIDE ROUND COMMAND...: a run that fails its own gates is a result too, and the comparison says so
run() {
  local side=$1 round=$2 id status
  shift 2
  for id in "${benchmarks[@]}"; do
    status=0
    "$@" run "$id" --seed "$round" --out "$out/$side/$round/$(basename "$id" .toml)" "${arguments[@]}" >&2 || status=$?
    if ((status > 1)); then
      say "error: $side: $id left with $status"
      exit "$status"
    fi
  done
}

# Rounds in turns, forth and back, so that what drifts on the machine hits both alike.
run_rounds() {
  local round
  for ((round = 1; round <= rounds; ++round)); do
    say "round $round of $rounds"
    if ((round % 2)); then
      run base "$round" "${base[@]}"
      run new "$round" "${new[@]}"
    else
      run new "$round" "${new[@]}"
      run base "$round" "${base[@]}"
    fi
  done
}

compare() {
  local status=0
  "${new[@]}" compare "$out/base" "$out/new" >"$out/comparison.md" || status=$?
  cat "$out/comparison.md"
  [[ -z ${GITHUB_STEP_SUMMARY:-} ]] || cat "$out/comparison.md" >>"$GITHUB_STEP_SUMMARY"
  return "$status"
}

[[ $rounds =~ ^[1-9][0-9]*$ ]] || { say "error: NOISEMARK_ROUNDS: $rounds (a number from 1)" && exit 2; }
if [[ -e $out && -n $(ls -A "$out") ]]; then
  say "error: $out: holds something already (a new or empty folder)"
  exit 2
fi
mkdir -p "$out"
require_device
red=0
run_smoke || red=1
run_rounds
status=0
compare || status=$?
say "compare left with $status"
if ((red)); then
  say "error: the smoke suite is red"
  exit 1
fi
exit "$status"
