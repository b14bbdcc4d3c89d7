/* A driver library for tests: the NVML calls that the exporter makes, answered from a file that a test
 * writes while the library runs. Not a driver, and not complete: a call that is not here is a missing symbol,
 * as in an old driver. This file: start and end, who a GPU is.
 */
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>

#include "state.h"

typedef struct {
    char bus_id_legacy[16];
    uint32_t domain, bus, device, device_id, subsystem_id;
    char bus_id[32];
} pci_info;

struct state *state;

int nvmlInitWithFlags(unsigned flags) {
    (void)flags;
    if (!state) {
        const char *path = getenv("FAKE_NVML_STATE");
        int fd = path ? open(path, O_RDWR) : -1;
        if (fd < 0) return LIBRARY_NOT_FOUND;
        void *at = mmap(NULL, sizeof *state, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
        close(fd);
        if (at == MAP_FAILED) return LIBRARY_NOT_FOUND;
        state = at;
    }
    while (((volatile struct state *)state)->init_hangs) sleep_ms(10);
    if (state->init_aborts) abort();
    return state->init_return;
}
int nvmlInit_v2(void) { return nvmlInitWithFlags(0); }
int nvmlShutdown(void) { return SUCCESS; }
const char *nvmlErrorString(int code) { return code ? "scripted" : "Success"; }

int nvmlSystemGetDriverVersion(char *to, unsigned size) {
    strncpy(to, state->driver, size);
    return SUCCESS;
}
int nvmlSystemGetCudaDriverVersion(int *to) { *to = (int)state->cuda; return SUCCESS; }
int nvmlDeviceGetCount_v2(unsigned *to) { *to = state->gpus; return state->count_return; }
int nvmlDeviceGetHandleByIndex_v2(unsigned index, device *to) {
    if (index >= state->gpus) return INVALID_ARGUMENT;
    int code = enter(&state->gpu[index], F_HANDLE);
    if (!code) *to = &state->gpu[index];
    return code;
}
/* Touches no other GPU. */
int nvmlDeviceGetHandleByPciBusId_v2(const char *bus_id, device *to) {
    unsigned domain, bus, dev, d, b, v;
    if (sscanf(bus_id, "%x:%x:%x", &domain, &bus, &dev) != 3) return INVALID_ARGUMENT;
    for (unsigned i = 0; i < state->gpus; i++) {
        sscanf(state->gpu[i].bus_id, "%x:%x:%x", &d, &b, &v);
        if (d != domain || b != bus || v != dev) continue;
        int code = enter(&state->gpu[i], F_HANDLE);
        if (!code) *to = &state->gpu[i];
        return code;
    }
    return NOT_FOUND;
}
int nvmlDeviceGetIndex(device g, uint32_t *to) { return copy_u32(g, F_INDEX, (uint32_t)(g - state->gpu), to); }
int nvmlDeviceGetUUID(device g, char *to, unsigned n) {
    device board;
    const struct mig_instance *m = mig_of(g, &board);
    return m ? copy_text(board, F_MIG_FACTS, m->uuid, to, n) : copy_text(g, F_UUID, g->uuid, to, n);
}
int nvmlDeviceGetName(device g, char *to, unsigned n) {
    device board;
    const struct mig_instance *m = mig_of(g, &board);
    return m ? copy_text(board, F_MIG_FACTS, m->name, to, n) : copy_text(g, F_NAME, g->name, to, n);
}
int nvmlDeviceGetSerial(device g, char *to, unsigned n) { return copy_text(g, F_SERIAL, g->serial, to, n); }
int nvmlDeviceGetVbiosVersion(device g, char *to, unsigned n) {
    return copy_text(g, F_VBIOS, g->vbios, to, n);
}
int nvmlDeviceGetPciInfo_v3(device g, pci_info *to) {
    memset(to, 0, sizeof *to);
    return copy_text(g, F_PCI, g->bus_id, to->bus_id, sizeof to->bus_id);
}
int nvmlDeviceGetMigMode(device g, uint32_t *now, uint32_t *pending) {
    *pending = g->mig_mode;
    return copy_u32(g, F_MIG, g->mig_mode, now);
}
int nvmlDeviceGetPersistenceMode(device g, uint32_t *to) {
    return copy_u32(g, F_PERSISTENCE, g->persistence, to);
}
int nvmlDeviceGetMinorNumber(device g, uint32_t *to) { return copy_u32(g, F_MINOR, g->minor, to); }
