/* Field values: the batch says success, and each value has a return code of its own. */
#include "state.h"

typedef struct {
    uint32_t id, scope;
    int64_t timestamp, latency_us;
    uint32_t type;
    int32_t ret;
    uint64_t value; /* a union in nvml.h; every member begins at its first byte */
} field_value;

int nvmlDeviceGetFieldValues(device g, int count, field_value *values) {
    int code = enter(g, F_FIELD_VALUES);
    if (code) return code;
    struct timespec now;
    clock_gettime(CLOCK_REALTIME, &now);
    for (int i = 0; i < count; i++) {
        values[i].timestamp = now.tv_sec * 1000000LL + now.tv_nsec / 1000; /* Unix time in us (nvml.h) */
        __atomic_fetch_add(&g->fields_asked, 1, __ATOMIC_RELAXED);
        values[i].ret = g->unknown_field_return;
        for (unsigned n = 0; n < g->fields_used; n++) {
            const struct field *one = &g->fields[n];
            if (one->id != values[i].id || one->scope != values[i].scope) continue;
            values[i].ret = one->ret;
            values[i].type = one->type;
            if (one->ret == SUCCESS) values[i].value = one->bits;
            break;
        }
    }
    return SUCCESS;
}
