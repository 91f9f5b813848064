#!/usr/bin/env bash
# Runs every test that needs a GPU, what proves the columns of utilization, and the micro-benchmarks of kernels, with no
# network and nothing but the programs, what libraries they were linked with (gpu-bundle.sh puts both into one folder) and
# a CUDA LibTorch. Two tests want more where they can run: gpu_program_test.py, of the program itself, a python3, and
# sanitize_kernels.sh, which takes longest and comes last, the toolkit's compute-sanitizer. Exit code 0: all that could run
# passed; 1: something failed, or lacks a library; 77: no GPU here. With NOISEMARK_REQUIRE=cuda in the environment 77
# becomes 1.
#
#   containers/gpu-check.sh [NAME...]   NAME: only these (suite_gpu_test, gpu_program_test.py)
#
#   BIN=DIR    where the programs are (default: bin/ beside this script, else build/release/bin of this checkout); they
#              may have been built elsewhere, and their libraries be in DIR/../lib
#   TORCH=DIR  torch/ of a LibTorch, where the programs do not find the one they were built with
#   OUT=DIR    keeps what each program printed, and the figures of the micro-benchmarks (NAME.json)
#   SECONDS_OF_EACH=N        after which a program is ended, and has failed; twice that of the sanitizer (default: 1800)
#   SECONDS_OF_COLUMNS=N     how long each window of each load of noisemark_gpu_columns lasts (default: 5)
#   SECONDS_OF_BENCHMARKS=N  how long each micro-benchmark lasts at least, one launch of 20 counted (default: 0.01); not
#                            those of cuDNN, whose number is fixed
set -euo pipefail

here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
bin=$here/bin
[[ -d $bin ]] || bin=$here/../build/release/bin
bin=${BIN:-$bin}
cannot_run=77

if [[ ! -d $bin ]]; then
  echo "gpu-check: BIN: $bin: no such folder (of built programs: cmake --workflow --preset release, or BIN=DIR)" >&2
  exit 2
fi
# shellcheck source=gpu-libraries.sh
source "$here/gpu-libraries.sh"
use_libraries gpu-check "$bin"

# needed_by NAME: the programs that it runs
needed_by() {
  case $1 in
    gpu_program_test.py) echo noisemark ;;
    sanitize_kernels.sh) echo codecs_gpu_test baselines_gpu_test memopt_gpu_test ;;
    *) echo "$1" ;;
  esac
}

# script_of NAME: where a test that is a script lies: beside this one in a bundle, else in the checkout
script_of() {
  local folder
  for folder in "$here" "$here"/../tests/suite/run "$here"/../tests/memopt; do
    if [[ -f $folder/$1 ]]; then echo "$folder/$1" && return; fi
  done
}

# is_here NAME: a script of which all programs are there
is_here() {
  local program
  [[ -n $(script_of "$1") ]] || return 1
  for program in $(needed_by "$1"); do [[ -x $bin/$program ]] || return 1; done
}

programs=("$@")
if [[ ${#programs[@]} -eq 0 ]]; then
  # The longest comes last.
  for program in "$bin"/*_gpu_test "$bin"/noisemark_gpu_columns "$bin"/noisemark_{norms_gpu,codecs}_micro; do
    [[ ! -x $program ]] || programs+=("$(basename "$program")")
  done
  if is_here gpu_program_test.py; then programs+=(gpu_program_test.py); fi
  [[ ! -x $bin/noisemark_cudnn_micro ]] || programs+=(noisemark_cudnn_micro)
  if is_here sanitize_kernels.sh; then programs+=(sanitize_kernels.sh); fi
fi
if [[ ${#programs[@]} -eq 0 ]]; then
  echo "gpu-check: BIN: $bin: holds none of *_gpu_test and noisemark_gpu_columns" >&2
  exit 2
fi

log=${OUT:-}
if [[ -z $log ]]; then
  log=$(mktemp -d)
  trap 'rm -rf "$log"' EXIT
fi
mkdir -p "$log"
longest=${SECONDS_OF_EACH:-1800}
# A GPU that another program has for itself, or for which this program has no code, is there, and no test can run on it:
# asked of the program itself, which knows what an error means, and only where something has failed.
out_of_reach=
gpu_is_out_of_reach() {
  local words status=0
  [[ -x $bin/noisemark ]] || return 1
  if [[ -z $out_of_reach ]]; then
    words=$(timeout -k 10 "$longest" "$bin/noisemark" run gmm16@cpu --device cuda --no-memory --no-profile \
      --set train.steps=1 --set eval.samples=8 --set eval.every=0 --out "$(mktemp -d)/run" 2>&1) || status=$?
    out_of_reach="no: $words"
    ((status != cannot_run)) || out_of_reach="yes: ${words##*$'\n'}"
  fi
  [[ $out_of_reach == yes:* ]]
}

passed=0 failed=0 skipped=0
# Its findings are for people; the test is that no signal ends it.
if [[ -x $bin/noisemark ]]; then
  status=0
  timeout -k 10 "$longest" "$bin/noisemark" doctor || status=$?
  if ((status == 124 || status >= 128)); then echo "noisemark doctor: FAILED, exit code $status" && failed=1; fi
fi

# missing_of NAME: the libraries that its programs ask for and do not find
missing_of() {
  local program
  for program in $(needed_by "$1"); do ldd "$bin/$program" 2>/dev/null || true; done |
    awk '$2 == "=>" && $3 == "not" { print $1 }' | sort -u | xargs
}

for program in "${programs[@]}"; do
  command=("$bin/$program")
  case $program in
    gpu_program_test.py) command=(python3 -B "$(script_of "$program")") && arguments=("$bin/noisemark") ;;
    sanitize_kernels.sh) command=(bash "$(script_of "$program")") && arguments=("$bin") ;;
    noisemark_gpu_columns) arguments=("${SECONDS_OF_COLUMNS:-5}") ;;
    *_micro) arguments=("--benchmark_min_time=${SECONDS_OF_BENCHMARKS:-0.01}"
      "--benchmark_out=$log/$program.json" --benchmark_out_format=json) ;;
    *) arguments=() ;;
  esac
  # It also measures a CPU, which is no affair of a GPU.
  [[ $program != noisemark_codecs_micro ]] || arguments+=("--benchmark_filter=^cuda/")
  status=0
  missing=$(missing_of "$program")
  if [[ -n $missing ]]; then
    echo "${missing// /, }: not found (in a folder of gpu-bundle.sh, or in that of TORCH)" >"$log/$program.log"
    status=127
  elif ! command -v "${command[0]}" >/dev/null; then
    echo "${command[0]}: not found" >"$log/$program.log"
    status=127
    [[ $program != *.py ]] || status=$cannot_run
  else
    # The sanitizer runs everything many times over, slowly.
    limit=$longest
    [[ $program != sanitize_kernels.sh ]] || limit=$((2 * longest))
    timeout -k 10 "$limit" "${command[@]}" "${arguments[@]}" >"$log/$program.log" 2>&1 || status=$?
    ((status != 124 && status != 137)) || echo "ended after $limit s (SECONDS_OF_EACH)" >>"$log/$program.log"
  fi
  # Google Benchmark calls it a success to have nothing to run.
  if [[ $status == 0 && $program == *_micro ]] && grep -q "^Failed to match any benchmarks" "$log/$program.log"; then
    status=$cannot_run
  fi
  if ((status != 0 && status != cannot_run)) && [[ -z $missing ]] && gpu_is_out_of_reach; then
    echo "${out_of_reach#yes: }" >>"$log/$program.log"
    status=$cannot_run
  fi
  case $status in
    0) verdict=passed && passed=$((passed + 1)) ;;
    "$cannot_run") verdict="cannot run here" && skipped=$((skipped + 1)) ;;
    *)
      verdict="FAILED, exit code $status"
      [[ -z $missing ]] || verdict="FAILED, cannot run: ${missing// /, }: not found"
      failed=$((failed + 1))
      ;;
  esac
  echo "$program: $verdict"
  [[ $program != noisemark_gpu_columns && $status == 0 ]] || cat "$log/$program.log"
done
echo "gpu-check: $passed passed, $failed failed, $skipped cannot run here"
[[ $failed -eq 0 ]] || exit 1
[[ $passed -eq 0 ]] || exit 0
case ,${NOISEMARK_REQUIRE:-}, in
  *,cuda,*) exit 1 ;;
  *) exit "$cannot_run" ;;
esac
