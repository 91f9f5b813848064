#!/usr/bin/env bash
# gpu_bundle_test.sh ROOT BIN: gpu-bundle.sh carries the programs and the libraries that a bare GPU host lacks, and nothing
# that must be the host's; beside stand-ins for the programs and for ldd, and with the program of this build.
set -euo pipefail
root=$1
bin=$2
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
unset BIN TORCH OUT

# bundle ENVIRONMENT... -- OUT...: prints the exit code
bundle() {
  local status=0 settings=()
  while [[ $1 != -- ]]; do settings+=("$1") && shift; done
  shift
  env BIN="$work/bin" PATH="$work/tools:$PATH" "${settings[@]}" bash "$root/containers/gpu-bundle.sh" "$@" \
    >"$work/log" 2>&1 || status=$?
  echo "$status"
}
expect() { [[ $1 == "$2" ]] || { echo "$3: expected $2, found $1" && cat "$work/log" && exit 1; }; }
says() { grep -qF -- "$1" "$work/log" || { echo "it does not say: $1" && cat "$work/log" && exit 1; }; }
holds() { [[ $(ls "$1" | xargs) == "$2" ]] || { echo "$1: expected $2, found $(ls "$1" | xargs)" && exit 1; }; }

mkdir "$work"/{bin,tools,libraries}
expect "$(bundle A=1 --)" 2 "no folder named"
expect "$(bundle BIN=/nowhere -- "$work/out")" 2 "no programs"
expect "$(bundle A=1 -- "$work/out")" 2 "a folder without programs"
says "holds none of"

for name in suite_gpu_test noisemark noisemark_codecs_micro noisemark_ops_micro other_test; do
  printf '#!/bin/sh\necho %s\n' "$name" >"$work/bin/$name" && chmod +x "$work/bin/$name"
done
for name in libfmt.so.9.1.0 libpng16.so.16 libstdc++.so.6 libc.so.6 libcurl.so.4; do echo "$name" >"$work/libraries/$name"; done
ln -s libfmt.so.9.1.0 "$work/libraries/libfmt.so.9"
# ldd says of all the programs but suite_gpu_test that they are no programs.
cat >"$work/tools/ldd" <<STANDIN
#!/bin/sh
case \$1 in
  */suite_gpu_test) cat "$work/needed" ;;
  *) echo "not a dynamic executable" >&2 && exit 1 ;;
esac
STANDIN
chmod +x "$work/tools/ldd"
here=$work/libraries
cat >"$work/needed" <<NEEDED
	linux-vdso.so.1 (0x00007f1aff08a000)
	libfmt.so.9 => $here/libfmt.so.9 (0x1)
	libpng16.so.16 => $here/libpng16.so.16 (0x1)
	libstdc++.so.6 => $here/libstdc++.so.6 (0x1)
	libcurl.so.4 => $here/libcurl.so.4 (0x1)
	libc.so.6 => $here/libc.so.6 (0x1)
	libtorch_cuda.so => /a/torch/lib/libtorch_cuda.so (0x1)
	libgomp.so.1 => /a/torch/lib/libgomp.so.1 (0x1)
	libcudart.so.13 => /usr/local/cuda/lib64/libcudart.so.13 (0x1)
	libcudnn.so.9 => /a/torch/lib/../../nvidia/cudnn/lib/libcudnn.so.9 (0x1)
	libcuda.so.1 => not found
	/lib64/ld-linux-x86-64.so.2 (0x00007f1aff08c000)
NEEDED
expect "$(bundle A=1 -- "$work/out")" 0 "stand-ins"
says "3 programs, 4 libraries"
holds "$work/out" "bin gpu-check.sh gpu-libraries.sh gpu_program_test.py lib peers run sanitize_kernels.sh"
holds "$work/out/run" "noisemark"
[[ $("$work/out/run/noisemark") == noisemark ]] || { echo "the program in run/" && exit 1; }
status=0
TORCH=/nowhere "$work/out/run/noisemark" >"$work/log" 2>&1 || status=$?
expect "$status" 2 "a LibTorch that is not there"
says "noisemark: TORCH: /nowhere: has no lib/"
status=0
CUDA_VISIBLE_DEVICES='' python3 -B "$work/out/peers/gpu_table.py" --noisemark "$work/out/run/noisemark" --data "$work" \
  --out "$work/table" >"$work/log" 2>&1 || status=$?
expect "$status" 77 "the table in the bundle"
holds "$work/out/bin" "noisemark noisemark_codecs_micro suite_gpu_test"
holds "$work/out/lib" "libcurl.so.4 libfmt.so.9 libpng16.so.16 libstdc++.so.6"
[[ ! -L $work/out/lib/libfmt.so.9 ]] || { echo "a link is carried, not the library" && exit 1; }
expect "$(bundle A=1 -- "$work/out")" 2 "a folder that holds something"
says "is not empty"
status=0
PATH=$work/tools:$PATH bash "$work/out/gpu-check.sh" noisemark_codecs_micro >"$work/log" 2>&1 || status=$?
expect "$status" 0 "gpu-check in the bundle"
printf '#!/bin/sh\nexit 77\n' >"$work/out/bin/noisemark"
status=0
PATH=$work/tools:$PATH bash "$work/out/gpu-check.sh" gpu_program_test.py >"$work/log" 2>&1 || status=$?
expect "$status" 77 "the program's test in the bundle"

echo "	libjpeg.so.62 => not found" >>"$work/needed"
expect "$(bundle A=1 -- "$work/other")" 1 "a library that is missing here too"
says "gpu-bundle: suite_gpu_test: libjpeg.so.62: not found"
[[ ! -e $work/other ]] || { echo "half a bundle is left" && exit 1; }

# The program of this build: each library that is carried is the one that it then takes.
rm -r "$work/tools/ldd" "$work/bin"
mkdir "$work/bin"
ln -s "$bin/noisemark" "$work/bin/noisemark"
expect "$(bundle A=1 -- "$work/real")" 0 "this build"
taken=$(LD_LIBRARY_PATH=$work/real/lib ldd "$work/real/bin/noisemark")
for library in "$work"/real/lib/*; do
  case $(basename "$library") in
    libc.so.* | libm.so.* | libtorch* | libc10* | libcudart*) echo "$library: must be the host's" && exit 1 ;;
  esac
  [[ $taken == *" => $library ("* ]] || { echo "$library: carried and not taken: $taken" && exit 1; }
done
[[ -f $work/real/lib/libstdc++.so.6 ]] || { echo "the C++ library is not carried" && exit 1; }
left=$(awk -v lib="$work/real/lib/" '$2 == "=>" && index($3, lib) != 1 { print $3 }' <<<"$taken" |
  grep -Ev '/torch/lib/|/nvidia/[^/]+/lib/|/lib(c|m|mvec|dl|pthread|rt|util|resolv)\.so\.' || true)
[[ -z $left ]] || { echo "left behind: $left" && exit 1; }
echo "gpu-bundle carries what the programs need and the host lacks"
