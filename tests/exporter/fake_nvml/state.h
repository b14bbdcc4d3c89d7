/* What the files of the fake driver library share: the state file, and how every call begins.
 *
 * layout.h is written by layout.py from the structures in script.py: `struct gpu`, `struct state`, F_NAME of each
 * function. Types and numbers of the calls are those of nvml.h as nvidia-ml-py 13 declares them.
 */
#ifndef FAKE_NVML_STATE_H
#define FAKE_NVML_STATE_H

#include <stdint.h>
#include <string.h>
#include <time.h>

#include "layout.h"

enum {
    SUCCESS = 0, INVALID_ARGUMENT = 2, NOT_SUPPORTED = 3, NOT_FOUND = 6, INSUFFICIENT_SIZE = 7, TIMEOUT = 10,
    LIBRARY_NOT_FOUND = 12, ARGUMENT_VERSION_MISMATCH = 25
};

typedef struct gpu *device;

extern struct state *state; /* nvml.c */
struct mig_instance *mig_of(const void *handle, device *board); /* mig.c: NULL for a board's handle */

static inline void sleep_ms(long ms) {
    struct timespec t = {ms / 1000, (ms % 1000) * 1000000L};
    nanosleep(&t, NULL);
}

/* Every call on a GPU begins here: count, hang while scripted, then say what is scripted. */
static inline int enter(device gpu, int function) {
    volatile struct gpu *now = gpu;
    __atomic_fetch_add(&gpu->calls[function], 1, __ATOMIC_RELAXED);
    if (now->delay_ms) sleep_ms(now->delay_ms);
    while (now->hangs[function]) sleep_ms(10);
    return now->every_return ? now->every_return : now->returns[function];
}

static inline int copy_text(device gpu, int function, const char *from, char *to, unsigned size) {
    int code = enter(gpu, function);
    if (code) return code;
    if (strlen(from) + 1 > size) return INSUFFICIENT_SIZE;
    memcpy(to, from, strlen(from) + 1);
    return SUCCESS;
}

static inline int copy_u32(device gpu, int function, uint32_t from, uint32_t *to) {
    int code = enter(gpu, function);
    if (!code) *to = from;
    return code;
}

static inline int copy_u64(device gpu, int function, uint64_t from, uint64_t *to) {
    int code = enter(gpu, function);
    if (!code) *to = from;
    return code;
}

#endif
