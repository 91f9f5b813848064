#!/usr/bin/env bash
# docker.sh BASE_COMMIT OUT: builds an image of BASE_COMMIT and one of what is checked out here, and has gate.sh compare
# them. It lies in a whole clone, on a machine with Docker. OUT gets `smoke` and `gate`, in place of an earlier run's.
set -euo pipefail

root=$(cd "$(dirname "${BASH_SOURCE[0]}")/../.." && pwd)
base_commit=$(git -C "$root" rev-parse --verify "${1:?usage: docker.sh BASE_COMMIT OUT}^{commit}")
out=$(realpath -m "${2:?usage: docker.sh BASE_COMMIT OUT}")
if [[ $out == *[[:space:]]* ]]; then
  echo "docker.sh: error: OUT: $out: has a space (none: gate.sh splits commands there)" >&2
  exit 2
fi
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

# A clone of its own and not a worktree, whose .git is a file that names a folder elsewhere: an image built of that could
# not tell its commit. It also goes with $work, so that the next run finds nothing of this one.
clone_base() {
  git init --quiet "$work/base"
  git -C "$work/base" fetch --quiet --depth 1 "file://$root" "$base_commit"
  git -C "$work/base" checkout --quiet --detach FETCH_HEAD
}

# image NAME FOLDER: prints the digest. Several jobs may share a Docker, so that a tag may have become another's by then.
image() {
  docker build -f "$2/containers/Dockerfile" -t "noisemark:$1" --iidfile "$work/$1.id" "$2" >&2
  cat "$work/$1.id"
}

# The files in OUT belong to the caller, who can then remove them. Where Docker itself runs without root,
# root in the container is the caller already.
owner() {
  local options
  options=$(docker info --format '{{.SecurityOptions}}')
  [[ $options == *rootless* ]] || echo "--user $(id -u):$(id -g)"
}

# called DIGEST: how noisemark of that image is called. It learns the digest, which no container can find out itself.
called() {
  echo "docker run --rm --gpus all $user -e NOISEMARK_REQUIRE -e NOISEMARK_IMAGE_DIGEST=$1" \
    "-e NOISEMARK_OUT=$out/smoke -v $out:$out $1"
}

clone_base
rm -rf "$out/smoke" "$out/gate"
mkdir -p "$out/smoke"
user=$(owner)
base=$(image base "$work/base")
new=$(image new "$root")
NOISEMARK_SMOKE="$(called "$new") benchmark" NOISEMARK_BASE=$(called "$base") NOISEMARK_NEW=$(called "$new") \
  bash "$root/containers/ci/gate.sh" "$out/gate"
