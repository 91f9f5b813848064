# Read by gpu-check.sh and gpu-program.sh: where programs that were built elsewhere find their libraries.

# use_libraries CALLER BIN: of the programs in BIN. Those of a bundle are in BIN/../lib, LibTorch's in TORCH. LibTorch's
# folders go first: of a library that is in both, as libgomp, it must find its own. The bundled ones go before the
# machine's, whose C++ library may be older than what the programs ask for.
use_libraries() {
  local caller=$1 bin=$2 folders folder
  if [[ -d $bin/../lib ]]; then
    LD_LIBRARY_PATH=$(cd "$bin/../lib" && pwd)${LD_LIBRARY_PATH:+:$LD_LIBRARY_PATH}
    export LD_LIBRARY_PATH
  fi
  [[ -n ${TORCH:-} ]] || return 0
  if [[ ! -d $TORCH/lib ]]; then
    echo "$caller: TORCH: $TORCH: has no lib/ (torch/ of a LibTorch)" >&2
    exit 2
  fi
  folders=$TORCH/lib
  # The wheels of CUDA's libraries lie beside that of LibTorch.
  for folder in "$TORCH"/../nvidia/*/lib; do [[ ! -d $folder ]] || folders=$folders:$folder; done
  export LD_LIBRARY_PATH=$folders${LD_LIBRARY_PATH:+:$LD_LIBRARY_PATH}
}
