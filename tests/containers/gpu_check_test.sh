#!/usr/bin/env bash
# gpu_check_test.sh ROOT BIN: gpu-check.sh says by its exit code whether everything that needs a GPU passed, failed or
# could not run; beside stand-ins for the programs, and with those of this build on a machine whose GPU is hidden.
set -euo pipefail
root=$1
bin=$2
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
unset NOISEMARK_REQUIRE BIN TORCH OUT

# program NAME BODY: what stands where a program would be
mkdir "$work/bin"
program() { printf '#!/bin/sh\n%s\n' "$2" >"$work/bin/$1" && chmod +x "$work/bin/$1"; }
# check ENVIRONMENT... [-- NAME...]: prints the exit code
check() {
  local settings=() status=0
  while [[ $# -gt 0 && $1 != -- ]]; do settings+=("$1") && shift; done
  [[ $# -eq 0 ]] || shift
  env BIN="$work/bin" "${settings[@]}" bash "$root/containers/gpu-check.sh" "$@" >"$work/log" 2>&1 || status=$?
  echo "$status"
}
expect() { [[ $1 == "$2" ]] || { echo "$3: expected $2, found $1" && cat "$work/log" && exit 1; }; }
says() { grep -q -- "$1" "$work/log" || { echo "it does not say: $1" && cat "$work/log" && exit 1; }; }

expect "$(check A=1)" 2 "a folder without programs"
says "holds none of"
expect "$(check BIN=/nowhere)" 2 "no folder"
expect "$(check TORCH=/nowhere)" 2 "no LibTorch"

program codecs_gpu_test 'echo no GPU here; exit 77'
program suite_gpu_test 'echo no GPU here; exit 77'
expect "$(check A=1)" 77 "nothing that can run"
expect "$(check NOISEMARK_REQUIRE=peers)" 77 "something else is required"
expect "$(check NOISEMARK_REQUIRE=peers,cuda)" 1 "a GPU is required and nothing can run"

program suite_gpu_test 'echo fine'
expect "$(check OUT="$work/out")" 0 "one passed, one cannot run"
says "1 passed, 0 failed, 1 cannot run here"
grep -q fine "$work/out/suite_gpu_test.log" || { echo "OUT keeps no output" && exit 1; }
program other_test 'exit 1'
expect "$(check A=1)" 0 "a program that needs no GPU is not its affair"

program noisemark_gpu_columns 'echo "columns for $1 s"'
expect "$(check SECONDS_OF_COLUMNS=9)" 0 "the columns"
says "columns for 9 s"
program noisemark_cudnn_micro 'for word; do echo "given $word"; done'
expect "$(check OUT="$work/out" SECONDS_OF_BENCHMARKS=2)" 0 "a micro-benchmark"
grep -q -- "given --benchmark_min_time=2" "$work/out/noisemark_cudnn_micro.log" || { echo "how long it lasts" && exit 1; }
grep -q -- "given --benchmark_out=$work/out/noisemark_cudnn_micro.json" "$work/out/noisemark_cudnn_micro.log" ||
  { echo "its figures are not kept" && exit 1; }

# A micro-benchmark of which a GPU's part alone is asked for.
program noisemark_codecs_micro 'for word; do echo "given $word"; done'
expect "$(check OUT="$work/out")" 0 "the codecs"
grep -q -- "given --benchmark_filter=^cuda/$" "$work/out/noisemark_codecs_micro.log" || { echo "what it measures" && exit 1; }
program noisemark_codecs_micro 'echo "Failed to match any benchmarks against regex: ^cuda/" >&2'
expect "$(check A=1)" 0 "codecs without a GPU, beside what passed"
says "noisemark_codecs_micro: cannot run here"

# Tests that are scripts: of the program itself, and of the kernels under compute-sanitizer where all of theirs are.
program noisemark '[ "$1" = doctor ] || echo no GPU here; exit 77'
expect "$(check OUT="$work/out")" 0 "the program without a GPU, beside what passed"
says "gpu_program_test.py: cannot run here"
program noisemark 'echo it broke; exit 1'
expect "$(check A=1 -- gpu_program_test.py)" 1 "a program that fails its own test"
says "gpu_program_test.py: FAILED, exit code 1"
program suite_gpu_test 'sleep 60'
expect "$(check SECONDS_OF_EACH=1 OUT="$work/out" -- suite_gpu_test)" 1 "a program that does not end"
grep -qx "ended after 1 s (SECONDS_OF_EACH)" "$work/out/suite_gpu_test.log" || { echo "why it was ended" && exit 1; }
program suite_gpu_test 'echo fine'
program noisemark '[ "$1" != doctor ] || kill -SEGV $$'
expect "$(check A=1 -- gpu_program_test.py)" 1 "a doctor that crashes"
says "noisemark doctor: FAILED, exit code 139"
rm "$work/bin/noisemark"
if grep -q sanitize_kernels "$work/log"; then echo "kernels of programs that are not there" && exit 1; fi
mkdir "$work/sanitizer"
printf '#!/bin/sh\nexit 0\n' >"$work/sanitizer/compute-sanitizer" && chmod +x "$work/sanitizer/compute-sanitizer"
for name in baselines_gpu_test memopt_gpu_test; do program "$name" 'echo fine'; done
expect "$(check PATH="$work/sanitizer:$PATH")" 0 "sanitized kernels"
says "sanitize_kernels.sh: passed"
printf '#!/bin/sh\nexit 3\n' >"$work/sanitizer/compute-sanitizer"
expect "$(check PATH="$work/sanitizer:$PATH")" 1 "kernels that are not clean"
says "sanitize_kernels.sh: FAILED, exit code 1"
rm "$work"/bin/{baselines,memopt}_gpu_test

# Libraries are looked for in these: LibTorch's folders, the bundled ones, the environment's.
mkdir -p "$work/lib" "$work/torch/lib" "$work/nvidia/cudnn/lib"
program suite_gpu_test 'echo "libraries: $LD_LIBRARY_PATH"'
expect "$(check OUT="$work/out" TORCH="$work/torch" LD_LIBRARY_PATH=/elsewhere)" 0 "bundled libraries"
wanted=$work/torch/lib:$work/torch/../nvidia/cudnn/lib:$work/lib:/elsewhere
grep -qxF "libraries: $wanted" "$work/out/suite_gpu_test.log" ||
  { echo "expected $wanted" && cat "$work/out/suite_gpu_test.log" && exit 1; }
rmdir "$work/lib"

# A library that is missing is named, whoever would have run.
mkdir "$work/tools"
cat >"$work/tools/ldd" <<'STANDIN'
#!/bin/sh
case $1 in
  */suite_gpu_test) printf '\tlibfmt.so.9 => not found\n\tlibc.so.6 => /lib/libc.so.6 (0x7f)\n\tlibpng16.so.16 => not found\n' ;;
  *) echo "not a dynamic executable" >&2 && exit 1 ;;
esac
STANDIN
chmod +x "$work/tools/ldd"
expect "$(check PATH="$work/tools:$PATH" OUT="$work/out")" 1 "a library is missing"
says "suite_gpu_test: FAILED, cannot run: libfmt.so.9, libpng16.so.16: not found"
says " 1 failed, "
program suite_gpu_test 'echo fine'

# Beside a folder bin/, as in a bundle, that one is taken.
cp "$root"/containers/gpu-{check,libraries}.sh "$work/"
status=0
bash "$work/gpu-check.sh" suite_gpu_test >"$work/log" 2>&1 || status=$?
expect "$status" 0 "the programs beside it"

program codecs_gpu_test 'echo it broke; exit 3'
program noisemark '[ "$1" != run ] || { echo noisemark: another program has the GPU for itself; exit 77; }'
expect "$(check A=1 -- codecs_gpu_test)" 77 "a GPU that another program has"
says "another program has the GPU for itself"
program noisemark 'exit 0'
expect "$(check A=1 -- codecs_gpu_test)" 1 "a GPU that can be used, and a test that failed"
rm "$work/bin/noisemark"
expect "$(check A=1)" 1 "one failed"
says "codecs_gpu_test: FAILED, exit code 3"
says "it broke"
program codecs_gpu_test 'kill -SEGV $$'
expect "$(check A=1)" 1 "one crashed"

status=0
CUDA_VISIBLE_DEVICES='' BIN=$bin bash "$root/containers/gpu-check.sh" >"$work/log" 2>&1 || status=$?
expect "$status" 77 "this build without a GPU"
says "0 passed, 0 failed"
status=0
CUDA_VISIBLE_DEVICES='' NOISEMARK_REQUIRE=cuda BIN=$bin bash "$root/containers/gpu-check.sh" >"$work/log" 2>&1 ||
  status=$?
expect "$status" 1 "this build without a GPU that is required"
echo "gpu-check tells what passed from what could not run"
