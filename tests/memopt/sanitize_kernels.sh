#!/usr/bin/env bash
# The kernels of memopt/ and baselines/ under compute-sanitizer: memory out of bounds, races in shared memory, barriers
# that not all threads reach. Exit code 0: nothing was found; 1: something was; 77: no GPU here, or no such tool (it comes
# with the CUDA toolkit). With NOISEMARK_REQUIRE=cuda in the environment it is 1 where there is no GPU.
#
#   tests/memopt/sanitize_kernels.sh build/release/bin [TOOL...]   TOOL: of compute-sanitizer
set -euo pipefail

bin=${1:?the folder of the test programs}
shift
tools=("$@")
[[ ${#tools[@]} -gt 0 ]] || tools=(memcheck racecheck synccheck)
cannot_run=77

without_gpu() {
  echo "sanitize_kernels: no GPU here"
  case ,${NOISEMARK_REQUIRE:-}, in
    *,cuda,*) exit 1 ;;
    *) exit "$cannot_run" ;;
  esac
}

# PROGRAM:FILTER, the tests that launch every kernel that touches tensors.
subjects=('codecs_gpu_test:GpuCodec.*:GpuAnswer.*:GpuPoolMap.*' 'baselines_gpu_test:GpuFusedNorms.*'
  'memopt_gpu_test:GpuNormChain.*:GpuValueSamples.*')
for subject in "${subjects[@]}"; do
  program=$bin/${subject%%:*}
  [[ -x $program ]] || { echo "sanitize_kernels: $program: no such program (a folder of built tests)" >&2 && exit 2; }
done

# A program without a GPU ends with 77; with one, it has selected no test.
status=0
env -u NOISEMARK_REQUIRE "$bin/memopt_gpu_test" --gtest_filter=NoSuite.NoTest >/dev/null 2>&1 || status=$?
[[ $status -ne $cannot_run ]] || without_gpu
sanitizer=$(command -v compute-sanitizer || command -v /usr/local/cuda/bin/compute-sanitizer || true)
[[ -n $sanitizer ]] || { echo "sanitize_kernels: compute-sanitizer is not here" && exit "$cannot_run"; }

# Each tensor is a block of its own then, so that its bounds are those of the memory.
export PYTORCH_NO_CUDA_MEMORY_CACHING=1
# LibTorch asks CUDA for what may not be there and forgets the answer: a call that failed is no fault of a kernel.
options=(--error-exitcode 3 --launch-timeout 0 --report-api-errors no)
failed=0
for tool in "${tools[@]}"; do
  for subject in "${subjects[@]}"; do
    echo "== $tool: ${subject%%:*}"
    "$sanitizer" --tool "$tool" "${options[@]}" "$bin/${subject%%:*}" "--gtest_filter=${subject#*:}" || failed=1
  done
done
exit "$failed"
