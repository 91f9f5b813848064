#!/usr/bin/env bash
# In a bundle of gpu-bundle.sh: runs the program of its own name in ../bin with the libraries of the bundle and of TORCH,
# and nothing else with them. A Python that starts it keeps its own.
set -euo pipefail
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
# shellcheck source=gpu-libraries.sh
source "$here/../gpu-libraries.sh"
use_libraries "$(basename "$0")" "$here/../bin"
exec "$here/../bin/$(basename "$0")" "$@"
