/* PCIe, NVLink and its fabric. */
#include "state.h"

typedef struct {
    uint32_t version;
    uint8_t cluster[16];
    int32_t status;
    uint32_t clique, state, health;
} fabric_v2;

int nvmlDeviceGetPcieReplayCounter(device g, uint32_t *to) { return copy_u32(g, F_REPLAYS, g->replays, to); }
int nvmlDeviceGetCurrPcieLinkGeneration(device g, uint32_t *to) {
    return copy_u32(g, F_PCIE_GEN, g->pcie_gen, to);
}
int nvmlDeviceGetCurrPcieLinkWidth(device g, uint32_t *to) { return copy_u32(g, F_PCIE_WIDTH, g->pcie_width, to); }
int nvmlDeviceGetMaxPcieLinkGeneration(device g, uint32_t *to) {
    return copy_u32(g, F_PCIE_GEN_MAX, g->pcie_gen_max, to);
}
int nvmlDeviceGetMaxPcieLinkWidth(device g, uint32_t *to) {
    return copy_u32(g, F_PCIE_WIDTH_MAX, g->pcie_width_max, to);
}
int nvmlDeviceGetNvLinkState(device g, unsigned link, uint32_t *to) {
    int code = enter(g, F_NVLINK_STATE);
    if (code) return code;
    if (link >= g->links) return link < 18 ? NOT_SUPPORTED : INVALID_ARGUMENT;
    *to = g->link_active[link];
    return SUCCESS;
}
int nvmlDeviceGetGpuFabricInfoV(device g, fabric_v2 *to) {
    if (to->version != 0x2000024) return ARGUMENT_VERSION_MISMATCH;
    int code = enter(g, F_FABRIC);
    if (code) return code;
    to->state = g->fabric_state;
    to->status = g->fabric_status;
    return SUCCESS;
}
