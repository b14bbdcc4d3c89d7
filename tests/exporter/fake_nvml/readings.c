/* Plain readings of a GPU. */
#include "state.h"

typedef struct { uint32_t gpu, memory; } utilization;
typedef struct { uint32_t version; uint64_t total, reserved, free, used; } memory_v2;

int nvmlDeviceGetUtilizationRates(device g, utilization *to) {
    to->memory = 0;
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
int nvmlDeviceGetClockInfo(device g, int domain, uint32_t *to) {
    return copy_u32(g, F_CLOCK, domain == 2 ? g->memory_mhz : g->sm_mhz, to);
}
int nvmlDeviceGetPcieReplayCounter(device g, uint32_t *to) { return copy_u32(g, F_REPLAYS, g->replays, to); }

static int ecc(device g, int function, int kind, int scope, int place, uint64_t *to) {
    int code = enter(g, function);
    if (!code) *to = g->ecc[kind & 1][scope & 1][place];
    return code;
}
int nvmlDeviceGetTotalEccErrors(device g, int kind, int scope, uint64_t *to) {
    return ecc(g, F_ECC_TOTAL, kind, scope, 0, to);
}
int nvmlDeviceGetMemoryErrorCounter(device g, int kind, int scope, int location, uint64_t *to) {
    return ecc(g, F_ECC_LOCATION, kind, scope, location == 7 ? 1 : 2, to); /* 7 SRAM, 2 DRAM */
}
int nvmlDeviceGetRemappedRows(device g, uint32_t *a, uint32_t *b, uint32_t *pending, uint32_t *failed) {
    int code = enter(g, F_REMAPPED_ROWS);
    if (code) return code;
    *a = g->remapped[0];
    *b = g->remapped[1];
    *pending = g->remapped[2];
    *failed = g->remapped[3];
    return SUCCESS;
}
