#!/usr/bin/env bash
# Removes from an image under construction what only its construction needed.
set -euo pipefail

root=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
find "$root/build/release" -name '*.o' -delete
find "$root/build/release" -name '*.a' -delete
# The program knows its commit by now, and nobody who is given the image needs the history.
rm -rf "$root/.git" /var/lib/apt/lists/* /root/.cache
apt-get clean
# A container may write below $NOISEMARK_OUT, which the recipes point here, and /tmp.
mkdir -p /out
