/* A driver library for tests: the NVML calls that the exporter makes, answered from a file that a test
 * writes while the library runs. Not a driver, and not complete: a call that is not here is a missing symbol,
 * as in an old driver.
 *
 * The layout of the file is that of script.py, checked by the sizes below. Types and numbers are those of
 * nvml.h as nvidia-ml-py 13 declares them.
 */
#include <fcntl.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>
#include <unistd.h>

enum { MAX_GPUS = 16, FUNCTIONS = 32, EVENTS = 256 };
enum { SUCCESS = 0, INVALID_ARGUMENT = 2, NOT_SUPPORTED = 3, TIMEOUT = 10, LIBRARY_NOT_FOUND = 12 };

/* Order of script.py's FUNCTIONS. */
enum {
    F_HANDLE, F_UUID, F_PCI, F_NAME, F_SERIAL, F_VBIOS, F_MIG, F_PERSISTENCE, F_UTILIZATION, F_MEMORY,
    F_POWER, F_ENERGY, F_TEMPERATURE, F_MEMORY_TEMPERATURE, F_CLOCK, F_LIMIT, F_DEFAULT_LIMIT, F_ECC_TOTAL,
    F_ECC_LOCATION, F_REMAPPED_ROWS, F_REPLAYS, F_REGISTER_EVENTS, F_FIELD_VALUES
};

struct gpu {
    int32_t every_return; /* what every call on this GPU returns, the handle included */
    int32_t returns[FUNCTIONS];
    uint32_t hangs[FUNCTIONS];
    uint32_t utilization_percent, power_mw, temperature_c, memory_temperature_c, sm_mhz, memory_mhz;
    uint32_t limit_mw, default_limit_mw, remapped[4], replays, mig_mode, persistence;
    uint64_t energy_mj, used, free, reserved, total, ecc[2][2][3]; /* kind, scope, all/sram/dram */
    char uuid[96], name[96], serial[32], vbios[32], bus_id[32];
};

struct state {
    uint32_t magic;
    int32_t init_return, count_return;
    uint32_t init_hangs, gpus, cuda, event_head, init_aborts;
    struct { uint32_t gpu, xid; } events[EVENTS];
    char driver[80];
    struct gpu gpu[MAX_GPUS];
};

_Static_assert(sizeof(struct gpu) == 744, "script.py declares 744 bytes a GPU");
_Static_assert(sizeof(struct state) == 14064, "script.py declares 14064 bytes");

typedef struct gpu *device;
typedef struct { uint32_t gpu, memory; } utilization;
typedef struct { uint32_t version; uint64_t total, reserved, free, used; } memory_v2;
typedef struct {
    char bus_id_legacy[16];
    uint32_t domain, bus, device, device_id, subsystem_id;
    char bus_id[32];
} pci_info;
typedef struct {
    uint32_t id, scope;
    int64_t timestamp, latency_us;
    uint32_t type;
    int32_t ret;
    union { double d; uint32_t u; uint64_t ull; } value;
} field_value;
typedef struct { device gpu; uint64_t type, data; uint32_t gi, ci; } event_data;

static struct state *state;
static uint32_t event_seen;

static void sleep_ms(long ms) {
    struct timespec t = {ms / 1000, (ms % 1000) * 1000000L};
    nanosleep(&t, NULL);
}

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

/* Every call on a GPU begins here: hang while scripted, then say what is scripted. */
static int enter(device gpu, int function) {
    volatile struct gpu *now = gpu;
    while (now->hangs[function]) sleep_ms(10);
    return now->every_return ? now->every_return : now->returns[function];
}

static int copy_text(device gpu, int function, const char *from, char *to, unsigned size) {
    int code = enter(gpu, function);
    if (code) return code;
    if (strlen(from) + 1 > size) return 7; /* INSUFFICIENT_SIZE */
    memcpy(to, from, strlen(from) + 1);
    return SUCCESS;
}

static int copy_u32(device gpu, int function, uint32_t from, uint32_t *to) {
    int code = enter(gpu, function);
    if (!code) *to = from;
    return code;
}

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
int nvmlDeviceGetUUID(device g, char *to, unsigned n) { return copy_text(g, F_UUID, g->uuid, to, n); }
int nvmlDeviceGetName(device g, char *to, unsigned n) { return copy_text(g, F_NAME, g->name, to, n); }
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
int nvmlDeviceGetUtilizationRates(device g, utilization *to) {
    to->memory = 0;
    return copy_u32(g, F_UTILIZATION, g->utilization_percent, &to->gpu);
}
int nvmlDeviceGetMemoryInfo_v2(device g, memory_v2 *to) {
    int code = enter(g, F_MEMORY);
    if (code) return code;
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
/* The batch says success; each value has a return code of its own. */
int nvmlDeviceGetFieldValues(device g, int count, field_value *values) {
    int code = enter(g, F_FIELD_VALUES);
    if (code) return code;
    for (int i = 0; i < count; i++) {
        values[i].ret = values[i].id == 82 ? enter(g, F_MEMORY_TEMPERATURE) : NOT_SUPPORTED;
        values[i].type = 1; /* unsigned int */
        values[i].value.u = g->memory_temperature_c;
    }
    return SUCCESS;
}

int nvmlEventSetCreate(void **to) {
    event_seen = state->event_head; /* what came before the set was made is lost, as in the driver */
    *to = &event_seen;
    return SUCCESS;
}
int nvmlEventSetFree(void *set) { (void)set; return SUCCESS; }
int nvmlDeviceRegisterEvents(device g, uint64_t types, void *set) {
    (void)types;
    (void)set;
    return enter(g, F_REGISTER_EVENTS);
}
int nvmlEventSetWait_v2(void *set, event_data *to, unsigned timeout_ms) {
    (void)set;
    for (unsigned waited = 0;; waited += 5) {
        uint32_t head = __atomic_load_n(&state->event_head, __ATOMIC_ACQUIRE);
        if (head != event_seen) {
            uint32_t at = event_seen++ % EVENTS;
            to->gpu = &state->gpu[state->events[at].gpu];
            to->type = 8; /* XID critical error */
            to->data = state->events[at].xid;
            to->gi = to->ci = 0xFFFFFFFFu;
            return SUCCESS;
        }
        if (waited >= timeout_ms) return TIMEOUT;
        sleep_ms(5);
    }
}
