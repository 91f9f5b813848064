#!/usr/bin/env bash
# Runs one benchmark in one mode as a test: run.sh NOISEMARK ID MODE DEFAULT_OUT
# The report goes below $NOISEMARK_OUT or, where that is not set, below DEFAULT_OUT. The exit code is noisemark's.
set -euo pipefail
noisemark=$1 id=$2 mode=$3 out=${NOISEMARK_OUT:-$4}/benchmark/$2-$3
passes=()
[[ $mode == none ]] || passes=(--no-profile)  # as in the suite itself
"$noisemark" run "$id" --mode "$mode" "${passes[@]}" --out "$out" --force </dev/null
