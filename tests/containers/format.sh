#!/usr/bin/env bash
# format.sh ROOT VERSION: every C++ and CUDA source below ROOT is as clang-format VERSION leaves it. Exit code 77 where
# that version is absent, because another one formats otherwise.
set -euo pipefail
root=$1 version=$2

for tool in "clang-format-$version" clang-format ""; do
  [[ -n $tool ]] || { echo "clang-format $version is not installed" && exit 77; }
  if command -v "$tool" >/dev/null && "$tool" --version | grep -q "version $version\."; then break; fi
done

cd "$root"
mapfile -t folders < <(for folder in reports memopt baselines suite tests; do [[ ! -d $folder ]] || echo "$folder"; done)
mapfile -t files < <(find "${folders[@]}" -name '*.h' -o -name '*.cpp' -o -name '*.cu' -o -name '*.cuh' | sort)
((${#files[@]} > 0)) || { echo "no sources below $root" && exit 1; }
"$tool" --dry-run -Werror --style=file "${files[@]}"
echo "${#files[@]} files are formatted"
