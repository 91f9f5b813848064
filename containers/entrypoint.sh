#!/usr/bin/env bash
# An image runs this: `benchmark` is the smoke suite under CTest, all other words go to noisemark, and none is --help.
set -euo pipefail

root=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
if [[ ${1:-} == benchmark ]]; then
  shift
  exec bash "$root/containers/benchmark.sh" "$@"
fi
(($# > 0)) || set -- --help
exec "$root/build/release/bin/noisemark" "$@"
