/* A libcuda for the test of load.py alone: it allocates what is asked and copies it. */
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

int cuInit(unsigned flags) { return flags ? 1 : 0; }
int cuDeviceGet(int *device, int ordinal) { *device = ordinal; return 0; }
int cuDevicePrimaryCtxRetain(void **context, int device) { *context = (void *)(intptr_t)(device + 1); return 0; }
int cuCtxSetCurrent(void *context) { return context ? 0 : 201; }
int cuMemAlloc_v2(uint64_t *to, size_t bytes) { *to = (uint64_t)(uintptr_t)malloc(bytes); return *to ? 0 : 2; }
int cuMemsetD32_v2(uint64_t to, unsigned value, size_t count) {
    for (size_t i = 0; i < count; i += 4096) ((uint32_t *)(uintptr_t)to)[i] = value;
    return 0;
}
int cuMemcpyDtoD_v2(uint64_t to, uint64_t from, size_t bytes) {
    memcpy((void *)(uintptr_t)to, (const void *)(uintptr_t)from, bytes < 4096 ? bytes : 4096);
    return 0;
}
int cuCtxSynchronize(void) { return 0; }
int cuMemFree_v2(uint64_t at) { free((void *)(uintptr_t)at); return 0; }
int cuDevicePrimaryCtxRelease_v2(int device) { return device; }
