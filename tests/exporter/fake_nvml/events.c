/* XIDs, and the waits for them. */
#include "state.h"

enum { EVENTS = sizeof(((struct state *)0)->events) / sizeof(struct event) };

typedef struct { device gpu; uint64_t type, data; uint32_t gi, ci; } event_data;

static uint32_t event_seen;

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
    while (((volatile struct state *)state)->wait_hangs) sleep_ms(10);
    if (state->wait_return) return state->wait_return;
    for (unsigned waited = 0;; waited += 5) {
        uint32_t head = __atomic_load_n(&state->event_head, __ATOMIC_ACQUIRE);
        if (head != event_seen) {
            uint32_t at = event_seen++ % EVENTS;
            to->gpu = &state->gpu[state->events[at].gpu];
            to->type = state->events[at].type;
            to->data = state->events[at].xid;
            to->gi = state->events[at].gi;
            to->ci = 0xFFFFFFFFu;
            return SUCCESS;
        }
        if (waited >= timeout_ms) return TIMEOUT;
        sleep_ms(5);
    }
}
