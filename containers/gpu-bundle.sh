#!/usr/bin/env bash
# Puts what gpu-check.sh and gpu_table.py run into one folder, for a GPU host that has LibTorch with CUDA's wheels and
# nothing else that the programs were linked with. In OUT are bin/, the programs, without their symbols; lib/, the shared
# libraries that they find here; gpu-check.sh, which runs them there (TORCH=DIR OUT/gpu-check.sh), with the tests that are
# scripts; peers/ with gpu_table.py (TORCH=DIR python3 OUT/peers/gpu_table.py --noisemark OUT/run/noisemark ...), and run/,
# in which each program finds its libraries while Python keeps its own.
#
#   containers/gpu-bundle.sh OUT   OUT: a new folder, or an empty one
#
#   BIN=DIR    where the programs are (default: build/release/bin of this checkout)
#
# Not carried are LibTorch's and CUDA's libraries, those of the driver, and glibc's own, which are the host's: its glibc
# must be no older than the one here. Exit code 0: made; 1: a library is missing here too; 2: bad input.
set -euo pipefail

root=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
bin=${BIN:-$root/build/release/bin}
out=${1:-}

if [[ $# -ne 1 || -z $out ]]; then
  echo "gpu-bundle: OUT: $# words given (one new folder)" >&2
  exit 2
fi
if [[ ! -d $bin ]]; then
  echo "gpu-bundle: BIN: $bin: no such folder (of built programs: cmake --workflow --preset release, or BIN=DIR)" >&2
  exit 2
fi
if [[ -e $out && (! -d $out || -n $(ls -A "$out")) ]]; then
  echo "gpu-bundle: OUT: $out: is not empty (a new folder)" >&2
  exit 2
fi

programs=()
for program in "$bin"/*_gpu_test "$bin"/noisemark "$bin"/noisemark_gpu_columns "$bin"/noisemark_bare_loop \
  "$bin"/noisemark_{norms_gpu,cudnn,codecs}_micro; do
  [[ ! -x $program ]] || programs+=("$program")
done
if [[ ${#programs[@]} -eq 0 ]]; then
  echo "gpu-bundle: BIN: $bin: holds none of *_gpu_test, noisemark and noisemark_gpu_columns" >&2
  exit 2
fi

# is_of_the_host NAME FILE: a library that the host has, and must have itself
is_of_the_host() {
  case $1 in
    ld-linux*.so.* | libc.so.* | libm.so.* | libmvec.so.* | libdl.so.* | libpthread.so.* | librt.so.*) return 0 ;;
    libutil.so.* | libresolv.so.*) return 0 ;;
    libtorch* | libc10* | libcuda* | libcudnn* | libcublas* | libcufft* | libcufile* | libcurand*) return 0 ;;
    libcusolver* | libcusparse* | libcupti* | libnccl.so.* | libnv*) return 0 ;;
  esac
  case $2 in
    */torch/lib/* | */nvidia/*/lib/*) return 0 ;;
  esac
  return 1
}

declare -A files=()
missing=0
for program in "${programs[@]}"; do
  # A line is `NAME => FILE (ADDRESS)` or `NAME => not found`; what has no arrow is the kernel's or the loader.
  while read -r name arrow file _; do
    [[ $arrow == "=>" ]] || continue
    if is_of_the_host "$name" "$file"; then continue; fi
    if [[ $file == not ]]; then
      echo "gpu-bundle: $(basename "$program"): $name: not found (a library)" >&2
      missing=1
    else
      files[$name]=$file
    fi
  done < <(ldd "$program" 2>/dev/null || true)
done
[[ $missing -eq 0 ]] || exit 1

mkdir -p "$out/bin" "$out/lib"
cp -L "${programs[@]}" "$out/bin/"
! command -v strip >/dev/null || strip "$out"/bin/* 2>/dev/null || true
# Under the name that programs ask for, without the links that lead there.
for name in "${!files[@]}"; do cp -L "${files[$name]}" "$out/lib/$name"; done
cp "$root/containers/gpu-check.sh" "$root/containers/gpu-libraries.sh" "$root/tests/suite/run/gpu_program_test.py" \
  "$root/tests/memopt/sanitize_kernels.sh" "$out/"
mkdir -p "$out/peers/result" "$out/run"
cp "$root"/baselines/peers/*.py "$out/peers/"
cp "$root"/reports/result/{result.schema.json,metrics.md} "$out/peers/result/"
for name in noisemark noisemark_gpu_columns noisemark_bare_loop; do
  [[ ! -x $out/bin/$name ]] || cp "$root/containers/gpu-program.sh" "$out/run/$name"
done
echo "gpu-bundle: $out: ${#programs[@]} programs, ${#files[@]} libraries"
