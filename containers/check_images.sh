#!/usr/bin/env bash
# Builds an image from each recipe and runs the smoke suite in it with a read-only root: check_images.sh [RECIPE...]
# RECIPE is Dockerfile or noisemark.def (default: both). An engine is used where one works: docker, podman, or else
# buildah with a base made by debootstrap, which needs root but no engine. noisemark.def is turned into a Dockerfile by
# spython. Takes about an hour on two cores, and 25 GB of disk below $TMPDIR; the Dockerfile, whose second stage is a copy
# of what the first one built, once more the size of the image.
#
# NOISEMARK_IMAGE_EXTRA=DIR copies the files below DIR over the base's root before the build: for sites with a package
# proxy or a certificate authority of their own.
# NOISEMARK_IMAGE_CCACHE=DIR keeps compiled objects for the next image or the next call (buildah and podman).
# NOISEMARK_OUT=DIR keeps the reports (default: build/images).
set -euo pipefail

root=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
# shellcheck source=versions.env
source "$root/containers/versions.env"
out=${NOISEMARK_OUT:-$root/build/images}
extra=${NOISEMARK_IMAGE_EXTRA:-}
cache=()
# ccache takes ~/.ccache where it exists; it is a mount, so nothing of it is left in the image.
if [[ -n ${NOISEMARK_IMAGE_CCACHE:-} ]]; then cache=(--volume "$(realpath "$NOISEMARK_IMAGE_CCACHE"):/root/.ccache"); fi
work=$(mktemp -d)

say() { printf 'images: %s\n' "$*" >&2; }
fail() { say "error: $*" && exit 1; }

find_engine() {
  local engine
  for engine in docker podman; do
    if command -v "$engine" >/dev/null && "$engine" info >/dev/null 2>&1; then
      echo "$engine"
      return
    fi
  done
  if ((EUID == 0)) && command -v buildah >/dev/null && command -v debootstrap >/dev/null; then echo buildah; fi
}

in_buildah() { buildah --storage-driver vfs --root "$work/storage" --runroot "$work/run" "$@"; }

remove_work() {
  if [[ $engine == buildah ]]; then in_buildah rm --all >/dev/null 2>&1 || true; fi
  rm -rf "$work"
}

# Commits an image whose root is what `debootstrap` makes of the pinned base's suite: "debian:bookworm-slim" is bookworm.
bootstrap_base() {
  local suite=${BASE_IMAGE#debian:} container
  say "base: debootstrap ${suite%-slim}"
  debootstrap --variant=minbase "${suite%-slim}" "$work/base" >"$work/log" 2>&1 ||
    { cat "$work/log" >&2 && fail "debootstrap failed"; }
  container=$(in_buildah from scratch)
  in_buildah add -q "$container" "$work/base" / >/dev/null
  in_buildah commit -q "$container" "$BASE_IMAGE" >/dev/null
  in_buildah rm "$container" >/dev/null
  rm -rf "$work/base"
}

# Prints the name of the base to build from. Only a base that differs from the recipes' own gets another name.
prepare_base() {
  if [[ $engine == buildah ]]; then bootstrap_base; fi
  if [[ -z $extra ]]; then
    echo "$BASE_IMAGE"
    return
  fi
  printf 'FROM %s\nCOPY . /\n' "$BASE_IMAGE" >"$work/Dockerfile.base"
  build_image "$work/Dockerfile.base" localhost/noisemark-base "$extra"
  echo localhost/noisemark-base
}

# build_image DOCKERFILE TAG CONTEXT
build_image() {
  if [[ $engine == buildah ]]; then
    in_buildah bud --isolation chroot --network host --pull-never --layers=false --format docker \
      "${cache[@]}" -f "$1" -t "$2" "$3" >&2
  elif [[ $engine == podman ]]; then
    podman build "${cache[@]}" -f "$1" -t "$2" "$3" >&2
  else
    docker build -f "$1" -t "$2" "$3" >&2
  fi
}

# docker_recipe RECIPE BASE: prints it as a Dockerfile that starts from BASE
docker_recipe() {
  local file=$root/containers/$1
  if [[ $1 == *.def ]]; then
    file=$work/Dockerfile.from-definition
    "$work/venv/bin/spython" recipe --parser singularity --writer docker "$root/containers/$1" >"$file"
  fi
  sed "/^FROM scratch/! s|^FROM [^ ]*|FROM $2|" "$file"
}

# run_read_only TAG COMMAND...: in the image's environment; only /out, /tmp, /proc and /dev can be written
run_read_only() {
  local tag=$1 container mounted variables=()
  shift
  if [[ $engine != buildah ]]; then
    "$engine" run --rm --read-only --tmpfs /tmp -v "$out/current:/out" --entrypoint "$1" "$tag" "${@:2}"
    return
  fi
  container=$(in_buildah from --pull-never "$tag")
  mounted=$(in_buildah mount "$container")
  mapfile -t variables < <(in_buildah inspect --type image --format '{{range .OCIv1.Config.Env}}{{println .}}{{end}}' \
    "$tag" | grep =)
  # shellcheck disable=SC2016
  unshare --mount bash -euo pipefail -c '
    root=$1 out=$2 && shift 2
    mount --bind "$root" "$root"
    mount -o remount,bind,ro "$root"
    mount --rbind /dev "$root/dev"
    mount -t proc proc "$root/proc"
    mount -t tmpfs tmpfs "$root/tmp"
    mount --bind "$out" "$root/out"
    exec chroot "$root" "$@"' read_only "$mounted" "$out/current" \
    env -i PATH=/usr/sbin:/usr/bin:/sbin:/bin HOME=/tmp "${variables[@]}" "$@"
  local status=$?
  in_buildah rm "$container" >/dev/null
  return "$status"
}

# command_of DOCKERFILE: what the image runs, one word a line, to be followed by the user's words
command_of() {
  local shell_form
  shell_form=$(sed -n 's/^CMD //p' "$1")
  if [[ -n $shell_form ]]; then
    printf '%s\n' sh -c "$shell_form" sh
  else
    sed -n 's/^ENTRYPOINT //p' "$1" | tr -d '[]",' | tr ' ' '\n'
  fi
}

# check RECIPE BASE
check() {
  local recipe=$1 dockerfile=$work/Dockerfile.$1 tag=localhost/noisemark-check started=$SECONDS program reports
  say "$recipe: building with $engine"
  docker_recipe "$recipe" "$2" >"$dockerfile"
  build_image "$dockerfile" "$tag" "$root" || fail "$recipe: the build failed"
  say "$recipe: built in $((SECONDS - started)) s; running the smoke suite with a read-only root"
  mapfile -t program < <(command_of "$dockerfile")
  rm -rf "$out/current" && mkdir -p "$out/current"
  if run_read_only "$tag" sh -c 'touch /opt/noisemark/written' 2>/dev/null; then
    fail "$recipe: the root could be written, so this would prove nothing"
  fi
  [[ $(run_read_only "$tag" "${program[@]}") == "usage: noisemark"* ]] || fail "$recipe: prints no help without a command"
  run_read_only "$tag" "${program[@]}" benchmark || fail "$recipe: the smoke suite failed"
  reports=$(find "$out/current/benchmark" -name report.md | wc -l)
  ((reports > 0)) || fail "$recipe: no report was left"
  rm -rf "${out:?}/$recipe" && mv "$out/current" "$out/$recipe"
  say "$recipe: right, $reports reports in $out/$recipe"
}

engine=$(find_engine)
[[ -n $engine ]] || fail "no engine: start docker or podman, or as root: apt-get install buildah debootstrap"
trap remove_work EXIT
(($# > 0)) || set -- Dockerfile noisemark.def
for recipe in "$@"; do
  [[ $recipe == Dockerfile || $recipe == noisemark.def ]] || fail "$recipe: unknown (Dockerfile, noisemark.def)"
done

python3 -m venv "$work/venv"
"$work/venv/bin/python3" -m pip install --quiet --require-hashes -r "$root/containers/requirements-images.txt"
base=$(prepare_base)
for recipe in "$@"; do check "$recipe" "$base"; done
