#!/usr/bin/env bash
# setup_test.sh ROOT: what setup.sh says when it is asked wrongly, or on a system that it does not know.
set -euo pipefail
setup=$1/containers/setup.sh

expect() {
  local code=$1 text=$2 status=0 output
  shift 2
  output=$("$@" 2>&1 </dev/null) || status=$?
  if [[ $status != "$code" || $output != *"$text"* ]]; then
    printf 'expected exit code %s and "%s"; found %s:\n%s\n' "$code" "$text" "$status" "$output"
    exit 1
  fi
}

expect 0 "containers/setup.sh COMMAND" bash "$setup" --help
expect 2 "no command: unknown (deps, build, smoke, test, nightly)" bash "$setup"
expect 2 "depz: unknown (deps, build, smoke, test, nightly)" bash "$setup" depz

# A system whose only programs are those that the script may call before it knows where it is.
tools=$(mktemp -d)
trap 'rm -rf "$tools"' EXIT
for tool in bash cat dirname sed uname; do ln -s "$(command -v "$tool")" "$tools/$tool"; done
expect 2 "this is not Debian or Ubuntu" env -i PATH="$tools" "$tools/bash" "$setup" deps

# A Debian that has nothing installed, and a user who may install nothing.
printf '#!%s\nexit 1\n' "$tools/bash" >"$tools/dpkg-query"
chmod +x "$tools/dpkg-query"
if ((EUID != 0)); then
  expect 2 "neither root nor sudo: apt-get install build-essential" env -i PATH="$tools" "$tools/bash" "$setup" deps
elif command -v setpriv >/dev/null; then
  chmod 755 "$tools"
  expect 2 "neither root nor sudo: apt-get install build-essential" \
    setpriv --reuid=65534 --clear-groups env -i PATH="$tools" "$tools/bash" "$setup" deps
fi
echo "setup.sh explains itself"
