#!/usr/bin/env bash
# What an image runs: `benchmark` is the smoke suite under CTest; anything else goes to noisemark, nothing is --help.
set -euo pipefail

root=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
if [[ ${1:-} == benchmark ]]; then
  shift
  exec bash "$root/containers/benchmark.sh" "$@"
fi
(($# > 0)) || set -- --help
exec "$root/build/release/bin/noisemark" "$@"
