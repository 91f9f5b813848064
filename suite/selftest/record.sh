#!/usr/bin/env bash
# Makes the recorded rounds again: suite/selftest/record.sh NOISEMARK [ROUNDS]
# One round is a run called BASE and one called NEW, in the order BASE NEW NEW BASE BASE NEW ... Needs a quiet machine and a
# build of a clean commit; the whole takes ROUNDS times 12 s.
set -euo pipefail
program=$(realpath "$1") rounds=${2:-16}
cd "$(dirname "${BASH_SOURCE[0]}")/../.."
runs=build/recorded kept=suite/selftest/recorded
PATH=$(dirname "$program"):$PATH

record() {  # SIDE ROUND
  local out=$runs/$1/$2
  noisemark run gmm16-ho@cpu --device cpu --threads 1 --no-memory --no-profile --set train.steps=40 --set eval.every=0 \
    --out "$out" --force </dev/null
  mkdir -p "$kept/$1/$2"
  cp "$out/result.json" "$kept/$1/$2/"
}

rm -rf "$kept"
for ((round = 1; round <= rounds; ++round)); do
  number=$(printf %02d "$round")
  if ((round % 2)); then sides=(base new); else sides=(new base); fi
  for side in "${sides[@]}"; do record "$side" "$number"; done
done
noisemark compare "$kept/base" "$kept/new"
