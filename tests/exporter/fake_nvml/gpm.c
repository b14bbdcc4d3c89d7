/* Hardware counters: a sample holds what the counters gave when it was taken; two of them give a mean. */
#include <stdlib.h>

#include "state.h"

enum {
    METRICS = sizeof(((struct activity *)0)->counters) / sizeof(double),
    INSTANCES = sizeof(((struct activity *)0)->mig) / sizeof(struct mig_instance),
    VERSION_MISMATCH = 25
};

typedef struct {
    device gpu;
    uint32_t gi, made;
    uint64_t taken; /* number of the sample */
    double counters[METRICS];
} sample;
typedef struct { uint32_t id; int32_t ret; double value; const char *names[3]; } metric;
typedef struct { uint32_t version, count; sample *older, *newer; metric metrics[]; } metrics_get;
typedef struct { uint32_t version, supported; } support;

static uint64_t samples_taken;

int nvmlGpmQueryDeviceSupport(device g, support *to) {
    if (to->version != 1) return VERSION_MISMATCH;
    return copy_u32(g, F_GPM_SUPPORT, g->activity.gpm_supported, &to->supported);
}
int nvmlGpmSampleAlloc(sample **to) {
    *to = calloc(1, sizeof **to);
    state->gpm_allocated++;
    return SUCCESS;
}
int nvmlGpmSampleFree(sample *s) {
    free(s);
    state->gpm_freed++;
    return SUCCESS;
}

static void take(sample *s, device g, uint32_t gi, uint32_t made, const double *counters) {
    s->gpu = g;
    s->gi = gi;
    s->made = made;
    s->taken = ++samples_taken;
    memcpy(s->counters, counters, sizeof s->counters);
}
int nvmlGpmSampleGet(device g, sample *s) {
    int code = enter(g, F_GPM_SAMPLE);
    if (!code) take(s, g, 0xFFFFFFFFu, 0, g->activity.counters);
    return code;
}
int nvmlGpmMigSampleGet(device g, uint32_t gi, sample *s) {
    int code = enter(g, F_GPM_MIG_SAMPLE);
    if (code) return code;
    for (int i = 0; i < INSTANCES; i++) {
        const struct mig_instance *m = &g->activity.mig[i];
        if (!*m->uuid || m->gi != gi) continue;
        take(s, g, gi, m->made, m->counters);
        return SUCCESS;
    }
    return NOT_FOUND;
}
int nvmlGpmMetricsGet(metrics_get *to) {
    if (to->version != 1) return VERSION_MISMATCH;
    const sample *a = to->older, *b = to->newer;
    if (!a->gpu || a->gpu != b->gpu || a->gi != b->gi || a->taken >= b->taken) return INVALID_ARGUMENT;
    int code = enter(a->gpu, F_GPM_METRICS);
    if (code) return code;
    for (uint32_t i = 0; i < to->count; i++) {
        uint32_t id = to->metrics[i].id;
        to->metrics[i].ret = id < METRICS ? a->gpu->activity.counter_returns[id] : NOT_SUPPORTED;
        if (to->metrics[i].ret) continue;
        /* Counters of another instance in the same place: their difference means nothing. */
        to->metrics[i].value = a->made == b->made ? b->counters[id] : 4e9;
    }
    return SUCCESS;
}
