"""`python -m tests.device.load SECONDS`: keeps GPU 0 busy with copies of its own memory, through the driver's libcuda
alone, so that no CUDA toolkit is needed. Prints "busy" once it is; exits 3 where there is no libcuda that works.
"""

from __future__ import annotations

import ctypes
import sys
import time

_BYTES = 256 << 20


def _call(function: object, *args: object) -> None:
    assert callable(function)
    code = function(*args)
    if code != 0:
        sys.stderr.write(f"load: {getattr(function, '__name__', '?')} gave {code}\n")
        raise SystemExit(3)


def main() -> None:
    """Copies from one half of 512 MiB to the other until the time is over; frees both, and ends."""
    end_s = time.monotonic() + float(sys.argv[1])
    try:
        cuda = ctypes.CDLL("libcuda.so.1")
    except OSError as exc:
        sys.stderr.write(f"load: {exc}\n")
        raise SystemExit(3) from exc
    device, context = ctypes.c_int(), ctypes.c_void_p()
    halves = (ctypes.c_uint64(), ctypes.c_uint64())
    _call(cuda.cuInit, ctypes.c_uint(0))
    _call(cuda.cuDeviceGet, ctypes.byref(device), ctypes.c_int(0))
    _call(cuda.cuDevicePrimaryCtxRetain, ctypes.byref(context), device)
    _call(cuda.cuCtxSetCurrent, context)
    for half in halves:
        _call(cuda.cuMemAlloc_v2, ctypes.byref(half), ctypes.c_size_t(_BYTES))
        _call(cuda.cuMemsetD32_v2, half, ctypes.c_uint(0x3F800000), ctypes.c_size_t(_BYTES // 4))
    print("busy", flush=True)
    while time.monotonic() < end_s:
        for _ in range(50):
            _call(cuda.cuMemcpyDtoD_v2, halves[1], halves[0], ctypes.c_size_t(_BYTES))
        _call(cuda.cuCtxSynchronize)
    for half in halves:
        _call(cuda.cuMemFree_v2, half)
    _call(cuda.cuDevicePrimaryCtxRelease_v2, device)


if __name__ == "__main__":
    main()
