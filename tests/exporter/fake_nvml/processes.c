/* What computes on a GPU; versions 2 and 3 of the call have one structure. */
#include "state.h"

typedef struct { uint32_t pid; uint64_t memory; uint32_t gi, ci; } process_info;

int nvmlDeviceGetComputeRunningProcesses_v2(device g, uint32_t *count, process_info *to) {
    int code = enter(g, F_PROCESSES);
    if (code) return code;
    uint32_t room = *count;
    *count = g->activity.processes_used;
    if (room < *count) return INSUFFICIENT_SIZE;
    for (uint32_t i = 0; i < *count; i++) {
        const struct process *p = &g->activity.processes[i];
        to[i].pid = p->pid;
        to[i].memory = p->memory;
        to[i].gi = to[i].ci = p->gi;
    }
    return SUCCESS;
}
int nvmlDeviceGetComputeRunningProcesses_v3(device g, uint32_t *count, process_info *to) {
    return nvmlDeviceGetComputeRunningProcesses_v2(g, count, to);
}
