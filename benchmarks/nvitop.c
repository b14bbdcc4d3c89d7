/* Calls that nvitop makes and our exporter does not, added to the fake driver library for the race alone: in the
 * library of the tests they could hide that a symbol is missing. Each is weak, so that it gives way when the library
 * has it. They answer at once; a real driver sleeps 20 ms in nvmlDeviceGetPcieThroughput (nvml.h).
 */
#include "state.h"

#define WEAK __attribute__((weak))

static int answer(device g, uint32_t value, uint32_t *to) {
    if (g->every_return) return g->every_return;
    *to = value;
    return SUCCESS;
}
WEAK int nvmlDeviceGetEncoderUtilization(device g, uint32_t *percent, uint32_t *period_us) {
    *period_us = 167000;
    return answer(g, 12, percent);
}
WEAK int nvmlDeviceGetDecoderUtilization(device g, uint32_t *percent, uint32_t *period_us) {
    *period_us = 167000;
    return answer(g, 3, percent);
}
WEAK int nvmlDeviceGetPowerManagementLimit(device g, uint32_t *to) { return answer(g, g->limit_mw, to); }
WEAK int nvmlDeviceGetPcieThroughput(device g, int direction, uint32_t *kib_per_s) {
    return answer(g, 1000u * (uint32_t)(direction + 1), kib_per_s);
}
WEAK int nvmlDeviceGetFanSpeed(device g, uint32_t *to) { /* boards of servers have no fan of their own */
    (void)g;
    (void)to;
    return NOT_SUPPORTED;
}
/* No processes: both sides are compared without any. */
WEAK int nvmlDeviceGetComputeRunningProcesses_v3(device g, uint32_t *count, void *to) {
    (void)to;
    return answer(g, 0, count);
}
WEAK int nvmlDeviceGetGraphicsRunningProcesses_v3(device g, uint32_t *count, void *to) {
    (void)to;
    return answer(g, 0, count);
}
