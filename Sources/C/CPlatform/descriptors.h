/* GNU functions that Swift's Glibc module does not have. The names differ to avoid conflicts with other declarations. */

/* O_DIRECT, for pipe2(2): a pipe that keeps the boundaries of writes. */
#ifdef __aarch64__
static const int latchkey_packet_mode = 0200000;
#else
static const int latchkey_packet_mode = 040000;
#endif

/* accept4(2) without the peer's address. */
extern int latchkey_accept4(int socket, void *address, void *length, int flags) __asm__("accept4");

/* pipe2(2). */
extern int latchkey_pipe2(int *ends, int flags) __asm__("pipe2");
