#!/usr/bin/env bash
# sanitize_kernels_test.sh FOLDER: sanitize_kernels.sh says by its exit code whether the kernels are clean, beside stand-ins
# for the programs and for compute-sanitizer.
set -euo pipefail
script=$1/sanitize_kernels.sh
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
unset NOISEMARK_REQUIRE

mkdir "$work/bin" "$work/tools"
# program FILE BODY: what stands where a program would be
program() { printf '#!/bin/sh\n%s\n' "$2" >"$work/$1" && chmod +x "$work/$1"; }
# check [VARIABLE=VALUE...] [-- TOOL...]: prints the exit code
check() {
  local variables=() status=0
  while [[ $# -gt 0 && $1 != -- ]]; do variables+=("$1") && shift; done
  [[ $# -eq 0 ]] || shift
  env PATH="$work/tools:$PATH" "${variables[@]}" bash "$script" "$work/bin" "$@" >"$work/log" 2>&1 || status=$?
  echo "$status"
}
expect() { [[ $1 == "$2" ]] || { echo "$3: expected $2, found $1" && cat "$work/log" && exit 1; }; }
says() { grep -q -- "$1" "$work/log" || { echo "it does not say: $1" && cat "$work/log" && exit 1; }; }

expect "$(check A=1)" 2 "a folder without programs"
says "no such program"

for name in codecs_gpu_test baselines_gpu_test memopt_gpu_test; do
  program "bin/$name" 'case ",$NOISEMARK_REQUIRE," in *,cuda,*) exit 1 ;; *) exit 77 ;; esac'
done
expect "$(check A=1)" 77 "no GPU"
says "no GPU here"
expect "$(check NOISEMARK_REQUIRE=peers,cuda)" 1 "a GPU is required"

# A GPU, and programs that no test was selected of.
for name in codecs_gpu_test baselines_gpu_test memopt_gpu_test; do program "bin/$name" 'exit 1'; done
if ! command -v compute-sanitizer >/dev/null && [[ ! -x /usr/local/cuda/bin/compute-sanitizer ]]; then
  expect "$(check NOISEMARK_REQUIRE=cuda)" 77 "a GPU that is required, and no tool"
  says "compute-sanitizer is not here"
fi
program tools/compute-sanitizer 'echo "$@"; exit 0'
expect "$(check A=1)" 0 "clean kernels"
for tool in memcheck racecheck synccheck; do says "--tool $tool .*memopt_gpu_test --gtest_filter=GpuNormChain"; done
says "--tool memcheck --error-exitcode 3 .*--report-api-errors no "
says "codecs_gpu_test --gtest_filter=GpuCodec.\*:GpuAnswer.\*:GpuPoolMap.\*"
expect "$(check A=1 -- initcheck)" 0 "a tool that was named"
says "--tool initcheck"
if grep -q memcheck "$work/log"; then echo "it ran a tool that was not named" && exit 1; fi

program tools/compute-sanitizer 'case "$*" in *racecheck*baselines_gpu_test*) exit 3 ;; esac'
expect "$(check A=1)" 1 "a race in one of the kernels"
echo "sanitize_kernels tells clean kernels from others, and from what could not run"
