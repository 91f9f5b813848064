#!/usr/bin/env bash
# Rewrites requirements-*.txt from versions.env: every wheel with its version and hashes, for the oldest Python that
# versions.env names. The newer ones install the same versions, which this script checks.
set -euo pipefail

containers=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
# shellcheck source=versions.env
source "$containers/versions.env"
venv=$containers/../build/venv-lock
oldest=${PYTHON_VERSIONS%% *}

[[ -x $venv/bin/uv ]] || { python3 -m venv "$venv" && "$venv/bin/python3" -m pip install --quiet "uv==$WHEEL_UV"; }

# resolve PYTHON CONSTRAINTS OUTPUT REQUIREMENT...
resolve() {
  local python=$1 constraints=$2 output=$3
  shift 3
  printf '%s\n' "$@" | "$venv/bin/uv" pip compile - --quiet --python-version "$python" \
    --python-platform x86_64-manylinux_2_28 --constraints "$constraints" --generate-hashes --no-header \
    --no-annotate --output-file "$output"
}

# lock NAME CONSTRAINTS REQUIREMENT...: writes requirements-NAME.txt. What is locked already stays as it is where it still fits:
# a newer version of what nobody asked for comes only after the file has been deleted.
lock() {
  local name=$1 constraints=$2 file=$containers/requirements-$1.txt fresh check version
  shift 2
  fresh=$(mktemp) check=$(mktemp)
  [[ ! -e $file ]] || cp "$file" "$fresh"
  resolve "$oldest" "$constraints" "$fresh" "$@"
  for version in $PYTHON_VERSIONS; do
    rm -f "$check"
    resolve "$version" "$fresh" "$check" "$@"
    cmp "$fresh" "$check" || { echo "lock: $name: Python $version resolves otherwise" >&2 && exit 1; }
  done
  { echo "# Written by containers/lock.sh from containers/versions.env: edit that file." && cat "$fresh"; } >"$file"
  rm -f "$fresh" "$check"
}

lock torch /dev/null "torch==$WHEEL_TORCH"
lock nvcc "$containers/requirements-torch.txt" "cuda-toolkit[nvcc,cccl,cupti,profiler]==$WHEEL_CUDA_TOOLKIT" \
  "nvidia-cuda-crt==$WHEEL_NVIDIA_CUDA_CRT" "nvidia-nvvm==$WHEEL_NVIDIA_NVVM"
lock test "$containers/requirements-torch.txt" "torch==$WHEEL_TORCH" "torchvision==$WHEEL_TORCHVISION" \
  "denoising-diffusion-pytorch==$WHEEL_DENOISING_DIFFUSION_PYTORCH" "diffusers==$WHEEL_DIFFUSERS" \
  "pytorch-fid==$WHEEL_PYTORCH_FID" "torch-fidelity==$WHEEL_TORCH_FIDELITY" \
  "safetensors==$WHEEL_SAFETENSORS" "numpy==$WHEEL_NUMPY" "scipy==$WHEEL_SCIPY" "pillow==$WHEEL_PILLOW" \
  "pyyaml==$WHEEL_PYYAML"
lock report "$containers/requirements-test.txt" "plotly==$WHEEL_PLOTLY"
lock images /dev/null "spython==$WHEEL_SPYTHON"
