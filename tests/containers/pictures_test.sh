#!/usr/bin/env bash
# pictures_test.sh ROOT: setup.sh runs a program that makes pictures only where NOISEMARK_CIFAR10_MAKER names it, never one
# that it finds outside the checkout; .ci/run names the one beside the checkout, and requires pictures then. Both run in a
# copy of the tree where what they call does nothing.
set -euo pipefail
root=$1
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
tree=$work/tree
mkdir -p "$tree/.ci" "$tree/torch" "$work/bin" "$work/venv/bin" "$work/shared/data"
cp "$root/.ci/run" "$tree/.ci/"
cp -r "$root/containers" "$tree/"
maker=$work/shared/data/make_cifar10.py
printf 'a program of a stranger\n' >"$maker"
for tool in cmake dpkg-query; do printf '#!/bin/sh\necho "ii "\n' >"$work/bin/$tool"; done
printf '#!/bin/sh\necho "pictures of ctest: ${NOISEMARK_CIFAR10:-none}, required: ${NOISEMARK_REQUIRE:-nothing}"\n' >"$work/bin/ctest"
# This stands where the virtual environment has its Python. It makes an empty folder of pictures.
printf '#!/bin/sh\necho "ran: $1"; mkdir -p "$2/cifar-10-batches-bin"\n' >"$work/venv/bin/python3"
chmod +x "$work"/bin/* "$work/venv/bin/python3"

# run SCRIPT [VARIABLE=VALUE]...: its output is in $work/log
run() {
  local script=$1
  shift
  rm -rf "$tree/build"
  env -u NOISEMARK_CIFAR10 -u NOISEMARK_CIFAR10_MAKER -u NOISEMARK_REQUIRE -u NOISEMARK_STAGES PATH="$work/bin:$PATH" \
    NOISEMARK_VENV="$work/venv" NOISEMARK_TORCH_ROOT="$tree/torch" NOISEMARK_CUDA=OFF "$@" bash "$tree/$script" >"$work/log" 2>&1 || fail "not green"
}
fail() { echo "$1" && cat "$work/log" && exit 1; }
expect() { grep -Fq -- "$1" "$work/log" || fail "expected: $1"; }
refuse() { ! grep -Fq -- "$1" "$work/log" || fail "unexpected: $1"; }

printf 'exec bash "$(dirname "$0")/containers/setup.sh" test\n' >"$tree/setup_test"
run setup_test
refuse "ran:"
expect "pictures of ctest: none"
run setup_test NOISEMARK_CIFAR10_MAKER="$maker"
expect "ran: $maker"
expect "pictures of ctest: $tree/build/data"
mkdir "$work/pictures" && cd "$work"
run setup_test NOISEMARK_CIFAR10=pictures
expect "pictures of ctest: $work/pictures"
run .ci/run
expect "make_cifar10.py"
expect "pictures of ctest: $tree/build/data, required: pictures"
rm "$maker"
run .ci/run
refuse "ran:"
expect "pictures of ctest: none, required: nothing"
echo "pictures are made only by a program that was named"
