#!/usr/bin/env bash
# The kernels of memopt/ and baselines/ under compute-sanitizer: memory out of bounds, races in shared memory, barriers
# that not all threads reach. Ends with 77 without a GPU or without the tool, with 1 where NOISEMARK_REQUIRE has «cuda».
#
#   tests/memopt/sanitize_kernels.sh build/release/bin [TOOL ...]
set -eu

bin=${1:?the folder of the test programs}
shift
tools=${*:-memcheck racecheck synccheck}

skip() {
  echo "$1"
  case ",${NOISEMARK_REQUIRE:-}," in
    *,cuda,*) exit 1 ;;
  esac
  exit 77
}

sanitizer=$(command -v compute-sanitizer || true)
[ -n "$sanitizer" ] || sanitizer=$(ls /usr/local/cuda/bin/compute-sanitizer 2>/dev/null || true)
for test in codecs_gpu_test baselines_gpu_test memopt_gpu_test; do
  [ -x "$bin/$test" ] || { echo "sanitize_kernels: $bin/$test: no such program (a folder of built tests)" >&2; exit 2; }
done
status=0
"$bin/memopt_gpu_test" --gtest_filter=NoSuite.NoTest >/dev/null || status=$?
[ "$status" -eq 0 ] || skip "no GPU here"
[ -n "$sanitizer" ] || skip "compute-sanitizer is not here (it comes with the CUDA toolkit)"

# Each tensor is a block of its own then, so that its bounds are those of the memory.
export PYTORCH_NO_CUDA_MEMORY_CACHING=1
failed=0
for tool in $tools; do
  for test in codecs_gpu_test:GpuCodec.*:GpuVerdict.*:GpuPoolMap.* baselines_gpu_test:GpuFusedNorms.* \
    memopt_gpu_test:GpuNormChain.*; do
    echo "== $tool: ${test%%:*}"
    "$sanitizer" --tool "$tool" --error-exitcode 3 --launch-timeout 0 \
      "$bin/${test%%:*}" --gtest_filter="${test#*:}" || failed=1
  done
done
exit $failed
