/* MIG devices: a handle is the address of its instance, so that mig_of can tell it from a board's. */
#include "state.h"

enum { INSTANCES = sizeof(((struct activity *)0)->mig) / sizeof(struct mig_instance) };

typedef struct { uint32_t sms, copy, decoders, encoders, jpeg, ofa, gi_slices, ci_slices; uint64_t memory_mib; } attributes;

struct mig_instance *mig_of(const void *handle, device *board) {
    for (unsigned i = 0; i < state->gpus; i++) {
        struct mig_instance *first = state->gpu[i].activity.mig;
        if (handle < (void *)first || handle >= (void *)(first + INSTANCES)) continue;
        *board = &state->gpu[i];
        return (struct mig_instance *)handle;
    }
    return NULL;
}

int nvmlDeviceGetMaxMigDeviceCount(device g, uint32_t *to) {
    return copy_u32(g, F_MIG_COUNT, g->mig_mode ? INSTANCES : 0, to);
}
int nvmlDeviceGetMigDeviceHandleByIndex(device g, uint32_t index, void **to) {
    int code = enter(g, F_MIG_HANDLE);
    if (code) return code;
    if (index >= INSTANCES || !*g->activity.mig[index].uuid) return NOT_FOUND;
    *to = &g->activity.mig[index];
    return SUCCESS;
}
int nvmlDeviceGetGpuInstanceId(void *handle, uint32_t *to) {
    device board;
    const struct mig_instance *m = mig_of(handle, &board);
    return m ? copy_u32(board, F_MIG_FACTS, m->gi, to) : INVALID_ARGUMENT;
}
int nvmlDeviceGetComputeInstanceId(void *handle, uint32_t *to) {
    device board;
    const struct mig_instance *m = mig_of(handle, &board);
    return m ? copy_u32(board, F_MIG_FACTS, m->ci, to) : INVALID_ARGUMENT;
}
int nvmlDeviceGetAttributes_v2(void *handle, attributes *to) {
    device board;
    const struct mig_instance *m = mig_of(handle, &board);
    if (!m) return INVALID_ARGUMENT;
    int code = enter(board, F_MIG_ATTRIBUTES);
    if (code) return code;
    memset(to, 0, sizeof *to);
    to->gi_slices = m->gi_slices;
    to->ci_slices = m->ci_slices;
    to->memory_mib = m->memory_mib;
    return SUCCESS;
}
