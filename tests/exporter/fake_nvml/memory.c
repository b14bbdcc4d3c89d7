/* ECC, and repairs of the memory. */
#include "state.h"

typedef struct {
    uint32_t version;
    uint64_t counts[11];
    uint32_t threshold_exceeded;
} sram_status;

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
int nvmlDeviceGetEccMode(device g, uint32_t *now, uint32_t *pending) {
    *pending = g->ecc_mode[1];
    return copy_u32(g, F_ECC_MODE, g->ecc_mode[0], now);
}
int nvmlDeviceGetSramEccErrorStatus(device g, sram_status *to) {
    if (to->version != 0x1000068) return ARGUMENT_VERSION_MISMATCH;
    return copy_u32(g, F_SRAM_STATUS, g->sram_exceeded, &to->threshold_exceeded);
}
int nvmlDeviceGetRowRemapperHistogram(device g, uint32_t *to) {
    int code = enter(g, F_BANKS);
    if (!code) memcpy(to, g->banks, sizeof g->banks);
    return code;
}
/* The first of two calls asks for the number alone. */
int nvmlDeviceGetRetiredPages(device g, int cause, uint32_t *count, uint64_t *addresses) {
    int code = enter(g, F_RETIRED_PAGES);
    if (code) return code;
    uint32_t room = *count, pages = g->retired[cause & 1];
    *count = pages;
    if (room < pages) return INSUFFICIENT_SIZE;
    for (uint32_t n = 0; addresses && n < pages; n++) addresses[n] = 4096u * (n + 1);
    return SUCCESS;
}
int nvmlDeviceGetRetiredPagesPendingStatus(device g, uint32_t *to) {
    return copy_u32(g, F_RETIRED_PENDING, g->retired_pending, to);
}
