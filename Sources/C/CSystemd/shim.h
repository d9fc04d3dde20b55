#include <dlfcn.h>
#include <systemd/sd-bus.h>
#include <systemd/sd-daemon.h>

/* This module links no library: LatchkeyPresence loads libsystemd at the first use of a bus. */
#define LATCHKEY_SYSTEMD(F) \
    F(sd_bus_add_match_async) F(sd_bus_add_object) F(sd_bus_call_async) F(sd_bus_close_unref) F(sd_bus_error_free) \
    F(sd_bus_error_set) F(sd_bus_flush) F(sd_bus_get_events) F(sd_bus_get_fd) F(sd_bus_get_timeout) F(sd_bus_is_ready) \
    F(sd_bus_message_append_array) F(sd_bus_message_append_basic) F(sd_bus_message_close_container) \
    F(sd_bus_message_enter_container) F(sd_bus_message_exit_container) F(sd_bus_message_get_error) \
    F(sd_bus_message_get_expect_reply) F(sd_bus_message_get_interface) F(sd_bus_message_get_member) \
    F(sd_bus_message_get_path) F(sd_bus_message_get_sender) F(sd_bus_message_new_method_call) \
    F(sd_bus_message_new_method_return) F(sd_bus_message_new_signal) F(sd_bus_message_open_container) \
    F(sd_bus_message_peek_type) F(sd_bus_message_read_array) F(sd_bus_message_read_basic) F(sd_bus_message_ref) \
    F(sd_bus_message_skip) F(sd_bus_message_unref) F(sd_bus_negotiate_fds) F(sd_bus_new) F(sd_bus_process) \
    F(sd_bus_reply_method_error) F(sd_bus_request_name) F(sd_bus_send) F(sd_bus_send_to) F(sd_bus_set_address) \
    F(sd_bus_set_bus_client) F(sd_bus_set_method_call_timeout) F(sd_bus_slot_unref) F(sd_bus_start) F(sd_bus_unref) \
    F(sd_notify)

/* The functions of libsystemd that LatchkeyPresence calls. */
struct latchkey_systemd {
#define LATCHKEY_FIELD(name) __typeof__(&name) name;
    LATCHKEY_SYSTEMD(LATCHKEY_FIELD)
#undef LATCHKEY_FIELD
};

/* Whether the library has all functions. */
static inline _Bool latchkey_systemd_load(struct latchkey_systemd *functions) {
    void *library = dlopen("libsystemd.so.0", RTLD_NOW | RTLD_LOCAL);
    if (!library) return 0;
#define LATCHKEY_LOAD(name) \
    if (!(functions->name = (__typeof__(&name))dlsym(library, #name))) return 0;
    LATCHKEY_SYSTEMD(LATCHKEY_LOAD)
#undef LATCHKEY_LOAD
    return 1;
}
