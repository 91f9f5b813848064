#!/usr/bin/env bash
# setup_installs_test.sh ROOT: what setup.sh installs, and what it then asks of the tests. It runs in a copy of the tree where
# apt, pip, CMake and ctest are stand-ins that write down what they are asked for.
set -euo pipefail
root=$1
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
mkdir -p "$work/tree" "$work/bin" "$work/venv/bin" "$work/packages" "$work/site"
cp -r "$root/containers" "$work/tree/"

# stand_in FILE: a program whose text is on standard input; $work is the folder of them all
stand_in() {
  { printf '#!/usr/bin/env bash\nset -eu\nwork=%q\n' "$work" && cat; } >"$1"
  chmod +x "$1"
}
stand_in "$work/bin/uname" <<<'echo x86_64'
stand_in "$work/bin/sudo" <<<'exec "$@"'
stand_in "$work/bin/cmake" <<<'exit 0'
stand_in "$work/bin/ctest" <<<'echo "required: ${NOISEMARK_REQUIRE:-nothing}"'
stand_in "$work/bin/dpkg-query" <<<'[[ -e $work/packages/${!#} ]] && echo "ii "'
stand_in "$work/bin/apt-get" <<'END'
[[ $1 == install ]] || { echo "apt-get $1" >>"$work/asked" && exit 0; }
[[ ${FAILING:-} != apt-get ]] || exit 100
packages=()
for word in "${@:2}"; do
  [[ $word == -* ]] || packages+=("$word")
done
echo "apt-get install ${packages[*]}" >>"$work/asked"
(cd "$work/packages" && touch "${packages[@]}")
END
stand_in "$work/venv/bin/python3" <<'END'
case "$*" in
  "-m pip --version") ;;
  "-m pip install "*)
    [[ ${FAILING:-} != pip ]] || exit 1
    echo "pip $(basename "${!#}")" >>"$work/asked"
    [[ $* != *requirements-nvcc.txt ]] || {
      mkdir -p "$work/site/nvidia/cu13/lib" "$work/site/nvidia/cu13/bin"
      touch "$work/site/nvidia/cu13/lib/libcudart.so.13"
      cp "$work/nvcc-13.0" "$work/site/nvidia/cu13/bin/nvcc"
    }
    ;;
  "-c import sysconfig"*) echo "$work/site" ;;
  *) exit 1 ;;
esac
END

for release in 12.9 13.0 13.1 14.0; do
  stand_in "$work/nvcc-$release" <<<"echo 'Cuda compilation tools, release $release, V$release.1'"
done

# setup COMMAND [VARIABLE=VALUE]...: what it says is in $work/log, and what it asked for in $work/asked
setup() {
  local command=$1
  shift
  : >"$work/asked"
  env -u NOISEMARK_TORCH_ROOT -u NOISEMARK_REQUIRE -u NOISEMARK_STAGES -u CUDACXX -u CUDA_HOME PATH="$work/bin:$PATH" \
    NOISEMARK_VENV="$work/venv" NOISEMARK_CUDA=OFF NOISEMARK_CIFAR10=/nowhere "$@" \
    bash "$work/tree/containers/setup.sh" "$command" >"$work/log" 2>&1 || [[ " $* " == *" FAILING="* ]] || fail "not green"
}
# setup_fails PROGRAM COMMAND: the same where this stand-in fails to install
setup_fails() {
  if (setup "$2" FAILING="$1" && grep -q "^setup: error: " "$work/log"); then return; fi
  fail "green, and $1 failed"
}
fail() { echo "$1" && cat "$work/log" "$work/asked" && exit 1; }
expect() { grep -Fxq -- "$1" "$work/log" || fail "expected: $1"; }
refuse() { ! grep -Fxq -- "$1" "$work/log" || fail "unexpected: $1"; }

# asked LINE...: exactly this was asked of apt and pip, in this order
asked() { [[ $(<"$work/asked") == "$(printf '%s\n' "$@")" ]] || fail "expected to be asked: $*"; }
of_set() { sed -n "s/^$1 //p" "$root/containers/apt-packages.txt" | tr '\n' ' ' | sed 's/ $//'; }
wheels_of() { grep -c '^[a-z]' "$root/containers/requirements-$1.txt"; }

# On a system that has nothing, everything; then nothing; then what went missing or was pinned anew.
setup deps
expect "setup: packages: installing $(of_set build)"
expect "setup: wheels: installing $(wheels_of torch) of torch (can take minutes, and is silent meanwhile)"
asked "apt-get update" "apt-get install $(of_set build)" "pip requirements-torch.txt" "pip requirements-report.txt"
setup deps
expect "setup: packages: nothing is missing"
expect "setup: wheels: torch is installed"
asked
rm "$work/packages/cmake"
setup deps
asked "apt-get update" "apt-get install cmake"
echo "# pinned anew" >>"$work/tree/containers/requirements-torch.txt"
setup deps
asked "pip requirements-torch.txt"
setup test
expect "setup: packages: installing $(of_set test)"
asked "apt-get update" "apt-get install $(of_set test)" "pip requirements-test.txt"
setup test
asked

# It tries again to install what it could not.
rm "$work/packages/cmake" "$work/venv/.installed-torch"
setup_fails apt-get deps
expect "setup: error: apt-get could not install: cmake"
setup deps
asked "apt-get update" "apt-get install cmake" "pip requirements-torch.txt"
rm "$work/venv/.installed-torch"
setup_fails pip deps
setup deps
asked "pip requirements-torch.txt"

# A test may not skip for want of peers that were just installed.
setup test
expect "required: peers"
setup test NOISEMARK_REQUIRE=cuda
expect "required: cuda,peers"
setup test NOISEMARK_REQUIRE=peers
expect "required: peers"
setup test NOISEMARK_TORCH_ROOT="$work/site"
expect "required: nothing"
# An nvcc is used where it is of the CUDA that LibTorch was built for. One of another is passed over, for one that the
# machine has elsewhere or, as a rule, for one of wheels.
for release in 13.0 13.1; do
  setup deps NOISEMARK_CUDA=ON CUDACXX="$work/nvcc-$release"
  expect "setup: CUDA: $work/nvcc-$release, release $release"
done
for release in 12.9 14.0; do
  rm -rf "$work/site/nvidia" "$work/venv/.installed-nvcc"
  setup deps NOISEMARK_CUDA=ON CUDACXX="$work/nvcc-$release"
  expect "setup: CUDA: $work/nvcc-$release is $release; 13.0 or a newer 13 is needed"
  refuse "setup: CUDA: $work/nvcc-$release, release $release"
  if grep -Fxq "pip requirements-nvcc.txt" "$work/asked"; then
    expect "setup: CUDA: $work/site/nvidia/cu13/bin/nvcc, release 13.0"
    [[ -e $work/site/nvidia/cu13/lib64/libcudart.so ]] || fail "the toolkit of wheels is not complete"
  fi
done
echo "setup.sh installs what is missing, and says what the tests may not miss"
