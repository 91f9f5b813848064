#!/usr/bin/env bash
# Sets up, builds and runs Noisemark on Debian 12 (Ubuntu 24.04: untried), x86-64, from nothing but git and root or sudo.
# `containers/setup.sh --help` says what each command does. Running it again does only what is still missing.
set -euo pipefail

root=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
containers=$root/containers
venv=${NOISEMARK_VENV:-$root/build/venv}
# shellcheck source=versions.env
source "$containers/versions.env"

usage() {
  cat <<'TEXT'
Usage: containers/setup.sh COMMAND

  deps    install what is missing: Debian packages, LibTorch and, where no nvcc is found, a CUDA toolkit
  build   deps, then configure and build the program, noisemark
  smoke   build, then run the smoke suite and say where its report is
  test    deps with the Python peers, then build everything and run every test that this machine can run but `nightly`
  nightly the same, but run the tests labelled `nightly`, which takes hours

Packages come by apt; wheels, checked by hash, go into a virtual environment. The system's Python is not touched.

Environment:
  NOISEMARK_CUDA=OFF     build without CUDA; no toolkit is installed
  NOISEMARK_TORCH_ROOT   use this LibTorch 2.11; no wheels are installed, and tests that need the peers skip
  NOISEMARK_VENV         the virtual environment (default: build/venv); several checkouts may share one
  NOISEMARK_CIFAR10      folder that holds cifar-10-batches-bin/, for the tests that read real images
  NOISEMARK_CIFAR10_MAKER  a Python program that makes such a folder, where the one above is not set: FILE DIR --png
  NOISEMARK_REQUIRE      one or several of cuda,peers,pictures,browser: a test that lacks it fails; `test` adds peers that it installs
  NOISEMARK_OUT          where results go
  NOISEMARK_JOBS         parallel compilations (default: cores, at most one for each 2 GiB of memory)
  NOISEMARK_STAGES       a file to which `test` adds a line with the time of each stage
TEXT
}

# stage NAME COMMAND...: runs the command and says how long it took
stage() {
  local name=$1 started=$SECONDS
  shift
  "$@"
  say "$name took $((SECONDS - started)) s"
  echo "$name $((SECONDS - started)) s" >>"${NOISEMARK_STAGES:-/dev/null}"
}

say() { printf 'setup: %s\n' "$*" >&2; }

fail() {
  printf 'setup: error: %s\n' "$*" >&2
  exit 2
}

# packages of the sets named, one a line
packages_of() {
  local set
  for set in "$@"; do sed -n "s/^$set //p" "$containers/apt-packages.txt"; done
}

is_installed() { [[ $(dpkg-query -W -f='${db:Status-Abbrev}' "$1" 2>/dev/null) == ii* ]]; }

as_root() {
  if ((EUID == 0)); then "$@"; else sudo "$@"; fi
}

install_packages() {
  command -v dpkg-query >/dev/null || fail "this is not Debian or Ubuntu; containers/README.md lists what is needed"
  local package missing=()
  for package in $(packages_of "$@"); do
    is_installed "$package" || missing+=("$package")
  done
  if ((${#missing[@]} == 0)); then
    say "packages: nothing is missing"
    return
  fi
  ((EUID == 0)) || command -v sudo >/dev/null ||
    fail "packages are missing, and this user has neither root nor sudo: apt-get install ${missing[*]}"
  say "packages: installing ${missing[*]}"
  as_root apt-get update -qq || fail "apt-get update failed; is a package mirror reachable?"
  as_root env DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends "${missing[@]}" \
    >/dev/null </dev/null || fail "apt-get could not install: ${missing[*]}"
}

find_python() {
  local version
  for version in $PYTHON_VERSIONS; do
    if [[ -x /usr/bin/python$version ]]; then
      echo "/usr/bin/python$version"
      return
    fi
  done
  fail "no Python of version ${PYTHON_VERSIONS// / or } in /usr/bin"
}

make_venv() {
  "$venv/bin/python3" -m pip --version >/dev/null 2>&1 && return
  local python
  python=$(find_python)
  [[ ! -e $venv || -e $venv/pyvenv.cfg || -z $(ls -A "$venv") ]] ||
    fail "NOISEMARK_VENV: $venv holds something else (a virtual environment, or a new or empty folder)"
  say "wheels: new virtual environment $venv ($python)"
  rm -rf "$venv"
  "$python" -m venv "$venv" || fail "$python -m venv failed; is python3-venv installed?"
}

# wheels NAME: installs containers/requirements-NAME.txt, unless exactly that file is installed already
wheels() {
  local file=$containers/requirements-$1.txt stamp=$venv/.installed-$1 sum
  sum=$(sha256sum <"$file")
  if [[ -e $stamp && $(<"$stamp") == "$sum" ]]; then
    say "wheels: $1 is installed"
    return
  fi
  say "wheels: installing $(grep -c '^[a-z]' "$file") of $1 (can take minutes, and is silent meanwhile)"
  PYTHONNOUSERSITE=1 PIP_USER=0 PIP_DISABLE_PIP_VERSION_CHECK=1 "$venv/bin/python3" -m pip install --quiet \
    --require-hashes --only-binary :all: -r "$file" </dev/null || fail "pip could not install $file"
  echo "$sum" >"$stamp"
}

site_packages() { "$venv/bin/python3" -c 'import sysconfig; print(sysconfig.get_path("platlib"))'; }

nvcc_release() { "$1" --version 2>/dev/null | sed -n 's/.*release \([0-9.]*\),.*/\1/p'; }

# is_usable RELEASE: new enough, and of the major version that LibTorch was built for
is_usable() {
  [[ ${1%%.*} == "${CUDA_VERSION%%.*}" && $(printf '%s\n' "$CUDA_VERSION" "$1" | sort -V | head -n 1) == "$CUDA_VERSION" ]]
}

# Prints the path of an nvcc that is usable, and nothing where there is none.
find_nvcc() {
  local nvcc release
  for nvcc in "${CUDACXX:-}" "$(command -v nvcc || true)" "${CUDA_HOME:-}/bin/nvcc" /usr/local/cuda/bin/nvcc; do
    [[ -x $nvcc ]] || continue
    release=$(nvcc_release "$nvcc")
    if is_usable "$release"; then
      echo "$nvcc"
      return
    fi
    say "CUDA: $nvcc is ${release:-no nvcc}; $CUDA_VERSION or a newer ${CUDA_VERSION%%.*} is needed"
  done
}

# complete_toolkit FOLDER: the wheels have lib/libcudart.so.13, but nvcc looks in lib64, and a linker for libcudart.so.
complete_toolkit() {
  local library
  [[ -e $1/lib64 ]] || ln -s lib "$1/lib64"
  for library in "$1"/lib/lib*.so.*; do
    [[ -e ${library%%.so.*}.so ]] || ln -s "$(basename "$library")" "${library%%.so.*}.so"
  done
}

# Sets CUDACXX. A machine's own toolkit is used where there is one; otherwise one is made of wheels.
install_toolkit() {
  if [[ ${NOISEMARK_CUDA:-ON} == OFF ]]; then
    say "CUDA: off"
    return
  fi
  CUDACXX=$(find_nvcc)
  if [[ -z $CUDACXX && -z ${NOISEMARK_TORCH_ROOT:-} ]]; then
    wheels nvcc
    local toolkit
    toolkit=$(site_packages)/nvidia/cu13
    complete_toolkit "$toolkit"
    CUDACXX=$toolkit/bin/nvcc
  fi
  if [[ -z $CUDACXX ]]; then
    say "CUDA: no nvcc; building without"
    NOISEMARK_CUDA=OFF
    return
  fi
  say "CUDA: $CUDACXX, release $(nvcc_release "$CUDACXX")"
  export CUDACXX
}

# A test that cannot import what was just installed for it is not one to skip.
require_peers() {
  [[ ,${NOISEMARK_REQUIRE:-}, == *,peers,* ]] || NOISEMARK_REQUIRE=${NOISEMARK_REQUIRE:+$NOISEMARK_REQUIRE,}peers
  export NOISEMARK_REQUIRE
}

# install_dependencies SET...: packages of the sets, then the wheels. Sets torch_root.
install_dependencies() {
  [[ $(uname -m) == x86_64 ]] || fail "the pinned wheels are for x86-64; this machine is $(uname -m)"
  install_packages "$@"
  if [[ -n ${NOISEMARK_TORCH_ROOT:-} ]]; then
    torch_root=$NOISEMARK_TORCH_ROOT
    say "wheels: none; LibTorch is $torch_root"
  else
    make_venv
    wheels torch
    wheels report
    if [[ " $* " == *" test "* ]]; then
      wheels test
      require_peers
    fi
    torch_root=$(site_packages)/torch
  fi
  install_toolkit
}

jobs() {
  local cores memory
  cores=$(nproc)
  memory=$(awk '/^MemTotal/ {print int($2 / 2097152)}' /proc/meminfo)
  echo $((memory < 1 ? 1 : memory < cores ? memory : cores))
}

# build TARGET...
build() {
  preset=release
  if [[ ${NOISEMARK_CUDA:-ON} == OFF ]]; then preset=cpu; fi
  export CMAKE_BUILD_PARALLEL_LEVEL=${NOISEMARK_JOBS:-$(jobs)}
  say "build: preset $preset, $CMAKE_BUILD_PARALLEL_LEVEL at a time, in build/$preset"
  cd "$root"
  cmake --preset "$preset" -DTorch_ROOT="$torch_root" -DNOISEMARK_CUDA="${NOISEMARK_CUDA:-ON}" >&2
  cmake --build --preset "$preset" --target "$@" >&2
}

smoke() {
  local out=${NOISEMARK_OUT:-$root/noisemark-out}/smoke status=0
  say "smoke: running"
  "build/$preset/bin/noisemark" run smoke --out "$out" --force || status=$?
  say "smoke: exit code $status; reports:"
  find "$out" -name report.md -printf '%p\n' | sort
  return "$status"
}

# Some tests read real pictures. NOISEMARK_CIFAR10_MAKER makes them once, where it is set.
provide_pictures() {
  if [[ -n ${NOISEMARK_CIFAR10:-} ]]; then
    say "pictures: $NOISEMARK_CIFAR10"
    return
  fi
  local maker=${NOISEMARK_CIFAR10_MAKER:-} data=$root/build/data
  if [[ ! -d $data/cifar-10-batches-bin ]]; then
    if [[ -z $maker || ! -x $venv/bin/python3 ]]; then
      say "pictures: none (NOISEMARK_CIFAR10 is not set); the tests that read them skip"
      return
    fi
    say "pictures: unpacking into build/data, about a minute"
    rm -rf "$data.part"
    if ! "$venv/bin/python3" "$maker" "$data.part" --png; then
      say "pictures: could not be unpacked; the tests that read them skip"
      return
    fi
    mv "$data.part" "$data"
  fi
  export NOISEMARK_CIFAR10=$data
}

# run_tests OPTION...: runs the tests that the options of ctest choose
run_tests() {
  provide_pictures
  say "test: ctest $*; what this machine cannot run is shown as Skipped"
  ctest --preset "$preset" "$@"
}

# Tests run in folders of their own, where a relative path would mean another place.
for variable in NOISEMARK_OUT NOISEMARK_CIFAR10; do
  [[ -z ${!variable:-} ]] || export "$variable=$(realpath -m "${!variable}")"
done

case "${1:-}" in
  deps)
    install_dependencies build
    ;;
  build)
    install_dependencies build
    build noisemark
    ;;
  smoke)
    install_dependencies build
    build noisemark
    smoke
    ;;
  test)
    stage set-up install_dependencies build test
    stage build build all
    stage tests run_tests --label-exclude '^nightly$' --parallel "$(($(nproc) < 2 ? 1 : 2))"
    ;;
  nightly)
    stage set-up install_dependencies build test
    stage build build all
    stage tests run_tests --label-regex '^nightly$'
    ;;
  -h | --help)
    usage
    ;;
  *)
    usage >&2
    fail "${1:-no command}: unknown (deps, build, smoke, test, nightly)"
    ;;
esac
