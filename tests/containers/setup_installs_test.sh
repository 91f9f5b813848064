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
echo "apt-get $1" >>"$work/asked"
[[ $1 == install ]] || exit 0
for word in "${@:2}"; do
  [[ $word == -* ]] || touch "$work/packages/$word"
done
END
stand_in "$work/venv/bin/python3" <<'END'
case "$*" in
  "-m pip --version") ;;
  "-m pip install "*) echo "pip $(basename "${!#}")" >>"$work/asked" ;;
  "-c import sysconfig"*) echo "$work/site" ;;
  *) exit 1 ;;
esac
END

# setup COMMAND [VARIABLE=VALUE]...: what it says is in $work/log, and what it asked for in $work/asked
setup() {
  local command=$1
  shift
  : >"$work/asked"
  env -u NOISEMARK_TORCH_ROOT -u NOISEMARK_REQUIRE -u NOISEMARK_STAGES -u CUDACXX -u CUDA_HOME PATH="$work/bin:$PATH" \
    NOISEMARK_VENV="$work/venv" NOISEMARK_CUDA=OFF NOISEMARK_CIFAR10=/nowhere "$@" \
    bash "$work/tree/containers/setup.sh" "$command" >"$work/log" 2>&1 || fail "not green"
}
fail() { echo "$1" && cat "$work/log" "$work/asked" && exit 1; }
expect() { grep -Fxq -- "$1" "$work/log" || fail "expected: $1"; }

# Where the peers were just installed, a test may not skip for want of them.
setup test
expect "required: peers"
setup test NOISEMARK_REQUIRE=cuda
expect "required: cuda,peers"
setup test NOISEMARK_REQUIRE=peers
expect "required: peers"
setup test NOISEMARK_TORCH_ROOT="$work/site"
expect "required: nothing"
echo "setup.sh installs what is missing, and says what the tests may not miss"
