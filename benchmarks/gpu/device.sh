#!/bin/bash
# What runs on the machine with the GPU, from the repository's root; README.md says how it gets there:
#
#     bash PATH/device.sh main      first: the mission, the captures
#     bash PATH/device.sh times     alone on the machine: decoders, service, loaders
#     bash PATH/device.sh late      once for each further folder: what its packs bring
#
# Each part has its own time limit and log, and none ends the rest. Results lie in $OUT: manifest.json, and one
# .tar.xz for each group, written as soon as the group is done. GPUKIT_SECONDS is the time of a call.
mode=${1:-main}
kit=$(cd "$(dirname "$0")" && pwd)
here=$(dirname "$kit")
root=$PWD
store=${GPUKIT_STORE:-/tmp/gpukit-store}
export GPUKIT_WORK=${GPUKIT_WORK:-/tmp/gpukit-work-$mode-$(basename "$here")}
OUT=${OUT:-$root/gpukit-out}
mkdir -p "$store" "$GPUKIT_WORK/logs" "$OUT"
export PYTHONUNBUFFERED=1 ORT_DISABLE_TELEMETRY=1 CUBLAS_WORKSPACE_CONFIG=:4096:8 TORCHPIPE_SKIP_TENSORRT=1 NO_COLOR=1 COLUMNS=180
# C++ stacks of refused files take seconds each
export TORCH_DISABLE_ADDR2LINE=1 TORCH_SHOW_CPP_STACKTRACES=0
export PYTHONDONTWRITEBYTECODE=1 XDG_CACHE_HOME=$store/cache HF_HUB_OFFLINE=1
# 540 s of the 600 that a command may take: the rest packs
deadline=$(( $(date +%s) + ${GPUKIT_SECONDS:-540} ))
python=${GPUKIT_PYTHON:-python3}

say() { echo "[$(( ${GPUKIT_SECONDS:-540} - deadline + $(date +%s) )) s] $*"; }

# part NAME SECONDS COMMAND…: run with a limit, in the background or not
part() {
  local name=$1 limit=$2 left rc start; shift 2
  left=$(( deadline - $(date +%s) ))
  if [ $left -lt 8 ]; then echo "{\"part\": \"$name\", \"rc\": \"no time left\"}" >> "$GPUKIT_WORK/parts.jsonl"; say "$name: no time left"; return; fi
  [ $limit -gt $left ] && limit=$left
  start=$(date +%s)
  timeout -k 5 "$limit" "$@" > "$GPUKIT_WORK/logs/$name.log" 2>&1 < /dev/null
  rc=$?
  echo "{\"part\": \"$name\", \"rc\": $rc, \"seconds\": $(( $(date +%s) - start )), \"limit\": $limit}" >> "$GPUKIT_WORK/parts.jsonl"
  say "$name: exit $rc in $(( $(date +%s) - start )) s"
  tail -n 4 "$GPUKIT_WORK/logs/$name.log" | cut -c1-200 | sed 's/^/    /'
}
pack() { timeout -k 5 60 "$python" "$kit/on_device/pack.py" "$@" || say "pack $* failed"; }

say "unpack"
"$python" "$kit/on_device/unpack.py" "$here" "$store" "$kit" > "$GPUKIT_WORK/logs/unpack.log" 2>&1 || say "unpack failed"
cat "$GPUKIT_WORK/logs/unpack.log"
export PYTHONPATH="$store/site:$root${PYTHONPATH:+:$PYTHONPATH}"
export OMNIBACK_CACHE_DIR=$store/site/omniback-cache
# what nvImageCodec, torchpipe and ONNX Runtime load by name: torch's CUDA libraries and the carried nvJPEG
torchlibs=$("$python" -c 'import torch, pathlib; print(pathlib.Path(torch.__file__).parents[1] / "nvidia")' 2>/dev/null)
export LD_LIBRARY_PATH="$store/site/nvidia/cu13/lib:$torchlibs/cu13/lib:$torchlibs/cudnn/lib${LD_LIBRARY_PATH:+:$LD_LIBRARY_PATH}"
cd "$root"
d=$kit/on_device
case $mode in
main)
  # alone on the GPU: the decoders meet hostile files, whose declared sizes take gigabytes
  part mission 240 "$python" $d/mission.py main &
  part environment 120 "$python" $d/environment.py
  wait
  pack environment mission
  if [ -e "$kit/lite0.pt" ]; then part imagenet 110 "$python" $d/imagenet.py; pack imagenet; fi
  part nvjpeg 150 "$python" $d/nvjpeg.py &
  part planes 100 "$python" $d/planes.py &
  wait
  part nvjpeg-compare 90 "$python" $d/nvjpeg.py --compare &
  part numerics 150 "$python" $d/numerics.py &
  part resize 90 "$python" $d/resize.py &
  wait
  pack nvjpeg numerics resize
  part evidence 240 "$python" $d/mission.py evidence
  ;;
times)
  # alone on the machine
  part speed 130 "$python" $d/speed.py
  pack speed
  part bench 170 "$python" $d/mission.py bench
  ;;
late)
  for name in lite0 ort dali cvcuda; do
    [ -e "$store/$name.done" ] && [ ! -e "$store/$name.ran" ] || continue
    touch "$store/$name.ran"
    case $name in
    lite0)
      part mission-imagenet 170 "$python" $d/mission.py imagenet
      part imagenet 110 "$python" $d/imagenet.py ;;
    ort) part ort 120 "$python" $d/numerics.py only=onnxruntime ;;
    dali)
      part nvjpeg-dali 100 "$python" $d/nvjpeg.py only=dali,cpu-dali,torchvision-one,nvjpeg-default,nvjpeg-hardware
      part nvjpeg-dali-compare 60 "$python" $d/nvjpeg.py --compare
      part speed-dali 50 "$python" $d/speed.py dali ;;
    cvcuda) part resize 60 "$python" $d/resize.py ;;
    esac
  done
  # the last call: everything that will come has come
  if [ -e "$here/last" ]; then part mission-late 240 "$python" $d/mission.py late; fi
  ;;
esac
pack all
say "done"
ls -l "$OUT"
