/* Plain readings of a GPU. */
#include "state.h"

typedef struct { uint32_t gpu, memory; } utilization;
typedef struct { uint32_t version; int32_t celsius; } margin;
typedef struct { uint32_t version; uint64_t total, reserved, free, used; } memory_v2;

/* Not defined under MIG, which is what the driver says then (nvml.h). */
int nvmlDeviceGetUtilizationRates(device g, utilization *to) {
    if (g->mig_mode && !g->mig_utilization) return NOT_SUPPORTED;
    to->memory = g->memory_copy_percent;
    return copy_u32(g, F_UTILIZATION, g->utilization_percent, &to->gpu);
}
int nvmlDeviceGetMemoryInfo_v2(device g, memory_v2 *to) {
    device board;
    const struct mig_instance *m = mig_of(g, &board);
    int code = enter(m ? board : g, F_MEMORY);
    if (code) return code;
    if (m) {
        to->total = m->memory_mib << 20;
        to->used = m->used;
        to->reserved = 0;
        to->free = to->total - to->used;
        return SUCCESS;
    }
    to->used = g->used;
    to->free = g->free;
    to->reserved = g->reserved;
    to->total = g->total;
    return SUCCESS;
}
int nvmlDeviceGetPowerUsage(device g, uint32_t *to) { return copy_u32(g, F_POWER, g->power_mw, to); }
int nvmlDeviceGetEnforcedPowerLimit(device g, uint32_t *to) { return copy_u32(g, F_LIMIT, g->limit_mw, to); }
int nvmlDeviceGetPowerManagementDefaultLimit(device g, uint32_t *to) {
    return copy_u32(g, F_DEFAULT_LIMIT, g->default_limit_mw, to);
}
int nvmlDeviceGetTotalEnergyConsumption(device g, uint64_t *to) {
    int code = enter(g, F_ENERGY);
    if (!code) *to = g->energy_mj;
    return code;
}
int nvmlDeviceGetTemperature(device g, int sensor, uint32_t *to) {
    (void)sensor;
    return copy_u32(g, F_TEMPERATURE, g->temperature_c, to);
}
int nvmlDeviceGetTemperatureThreshold(device g, int kind, uint32_t *to) {
    return copy_u32(g, F_THRESHOLD, g->thresholds_c[kind & 7], to);
}
int nvmlDeviceGetMarginTemperature(device g, margin *to) {
    if (to->version != 0x1000008) return ARGUMENT_VERSION_MISMATCH;
    int code = enter(g, F_MARGIN);
    if (!code) to->celsius = g->margin_c;
    return code;
}
int nvmlDeviceGetMaxClockInfo(device g, int domain, uint32_t *to) {
    return copy_u32(g, F_MAX_CLOCK, domain == 2 ? g->memory_max_mhz : g->sm_max_mhz, to);
}
int nvmlDeviceGetCurrentClocksEventReasons(device g, uint64_t *to) {
    return copy_u64(g, F_CLOCK_EVENTS, g->clock_events, to);
}
int nvmlDeviceGetCurrentClocksThrottleReasons(device g, uint64_t *to) {
    return copy_u64(g, F_THROTTLE_REASONS, g->clock_events, to);
}
int nvmlDeviceGetClockInfo(device g, int domain, uint32_t *to) {
    return copy_u32(g, F_CLOCK, domain == 2 ? g->memory_mhz : g->sm_mhz, to);
}
