#include <linux/uhid.h>
#include <stddef.h>

/* Swift does not import packed structures. These functions let a test compare its offsets with the kernel's header. */
static inline size_t latchkey_uhid_event_size(void) { return sizeof(struct uhid_event); }
static inline size_t latchkey_uhid_create2_offset(int field) {
    switch (field) {
    case 0: return offsetof(struct uhid_event, u.create2.name);
    case 1: return offsetof(struct uhid_event, u.create2.phys);
    case 2: return offsetof(struct uhid_event, u.create2.uniq);
    case 3: return offsetof(struct uhid_event, u.create2.rd_size);
    case 4: return offsetof(struct uhid_event, u.create2.bus);
    case 5: return offsetof(struct uhid_event, u.create2.vendor);
    case 6: return offsetof(struct uhid_event, u.create2.product);
    case 7: return offsetof(struct uhid_event, u.create2.version);
    case 8: return offsetof(struct uhid_event, u.create2.country);
    default: return offsetof(struct uhid_event, u.create2.rd_data);
    }
}

/* Makes the event of a client's packet in memory of latchkey_uhid_event_size() bytes. */
static inline void latchkey_uhid_output(void *memory, const void *data, unsigned short size, unsigned char type) {
    struct uhid_event *event = (struct uhid_event *)memory;
    event->type = UHID_OUTPUT;
    __builtin_memcpy(event->u.output.data, data, size);
    event->u.output.size = size;
    event->u.output.rtype = type;
}

static inline void latchkey_uhid_request(void *memory, unsigned type, unsigned id) {
    struct uhid_event *event = (struct uhid_event *)memory;
    event->type = type;
    if (type == UHID_GET_REPORT) event->u.get_report.id = id; else event->u.set_report.id = id;
}

/* The fields of events that the relay writes. */
static inline unsigned latchkey_uhid_type(const void *memory) { return ((const struct uhid_event *)memory)->type; }
static inline unsigned latchkey_uhid_input_size(const void *memory) {
    return ((const struct uhid_event *)memory)->u.input2.size;
}
static inline const unsigned char *latchkey_uhid_input_data(const void *memory) {
    return ((const struct uhid_event *)memory)->u.input2.data;
}
static inline unsigned latchkey_uhid_reply_id(const void *memory) {
    const struct uhid_event *event = (const struct uhid_event *)memory;
    return event->type == UHID_GET_REPORT_REPLY ? event->u.get_report_reply.id : event->u.set_report_reply.id;
}
static inline unsigned latchkey_uhid_reply_error(const void *memory) {
    const struct uhid_event *event = (const struct uhid_event *)memory;
    return event->type == UHID_GET_REPORT_REPLY ? event->u.get_report_reply.err : event->u.set_report_reply.err;
}
