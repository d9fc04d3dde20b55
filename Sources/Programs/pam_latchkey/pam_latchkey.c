/* pam_latchkey.so: signs in with the PIN or finger that latchkey-presenced checks.
 *
 * It carries a conversation between PAM and the service's socket; it decides nothing. The lines are described in
 * Documentation/SignIn.md. Every failure of the service leads to the next module of the stack, the password.
 *
 * Options: finger   only the finger, without a prompt (for a stack of its own, such as gdm-fingerprint)
 *          pin      only the PIN
 *          learn    a second line after the modules for passwords: the password opens the user's record
 *
 * It runs in programs such as sudo and a display manager: no threads, no signal handlers, no libraries except libpam.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <pwd.h>
#include <security/pam_ext.h>
#include <security/pam_modules.h>
#include <security/pam_modutil.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#ifndef LATCHKEY_SOCKET
#define LATCHKEY_SOCKET "/run/latchkey/login"
#endif
#ifndef LATCHKEY_HELPER
#define LATCHKEY_HELPER "/usr/libexec/latchkey-keyring"
#endif

/* The maximum length of a line of the service, with its end. */
#define ANSWER 512
/* The maximum length of a password (PAM_MAX_RESP_SIZE). */
#define PASSWORD 512
/* A request with two passwords in hexadecimal digits. */
#define REQUEST (4 * PASSWORD + 64)
#define HANDLE 64
/* The longest secret, the key of a wallet. */
#define SECRET 56

/* Time limits in milliseconds. Until the first answer, the user waits for a service that may hang. Tests on a busy machine have
 * more patience with a service that has answered. */
#ifndef LATCHKEY_PATIENCE
#define LATCHKEY_PATIENCE 1
#endif
#define FIRST 1000
#define TPM (10000 * LATCHKEY_PATIENCE)
#define FINGER 14000
#define SCRYPT (3000 * LATCHKEY_PATIENCE)
#define OPENING (2000 * LATCHKEY_PATIENCE)

#define HEX "0123456789abcdef"
static const char data_name[] = "latchkey_handle";
/* Set while the service did not answer the last request of this handle in time. */
static const char late_name[] = "latchkey_late";

struct options { int finger, pin, learn; };

/* What the session part exchanges for the secret of the user's keyring. */
struct handle {
    char text[HANDLE + 1];
    char kind[8];
    uid_t user;
};

static struct options parse(int argc, const char **argv) {
    struct options o = {0, 0, 0};
    for (int i = 0; i < argc; i++) {
        if (!strcmp(argv[i], "finger")) o.finger = 1;
        else if (!strcmp(argv[i], "pin")) o.pin = 1;
        else if (!strcmp(argv[i], "learn")) o.learn = 1;
    }
    return o;
}

static long now(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return t.tv_sec * 1000 + t.tv_nsec / 1000000;
}

static const char *item(pam_handle_t *h, int which) {
    const void *value = NULL;
    return pam_get_item(h, which, &value) == PAM_SUCCESS && value ? value : "";
}

/* Connects; errno is ENOENT if there is no service. The program that called listen(2) must be root: another user could otherwise
 * ask for PINs at this path. */
static int open_service(void) {
    struct sockaddr_un address = {.sun_family = AF_UNIX, .sun_path = LATCHKEY_SOCKET};
    struct ucred peer;
    socklen_t length = sizeof peer;
    int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    if (fd < 0) return -1;
    if (connect(fd, (struct sockaddr *)&address, sizeof address) ||
        getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &peer, &length)) {
        int cause = errno;
        close(fd);
        errno = cause;
        return -1;
    }
    if (peer.uid == 0) return fd;
    close(fd);
    errno = EPERM;
    return -1;
}

/* Sends one line. The socket's buffer is empty, so a line that does not fit is an error. Erases the line. */
static int send_line(int fd, char *line) {
    size_t n = strlen(line);
    line[n] = '\n';
    int is_sent = send(fd, line, n + 1, MSG_NOSIGNAL) == (ssize_t)(n + 1);
    explicit_bzero(line, n + 1);
    return is_sent;
}

/* Reads one line of printable ASCII. Returns 0 at the end, after an error, or after the time limit. */
static int read_line(int fd, char line[ANSWER], long limit) {
    long end = now() + limit;
    for (size_t n = 0; n < ANSWER;) {
        long left = end - now();
        struct pollfd p = {.fd = fd, .events = POLLIN};
        if (left <= 0) return 0;
        int ready = poll(&p, 1, (int)left);
        if (ready < 0 && errno == EINTR) continue;
        if (ready <= 0 || read(fd, line + n, 1) != 1) return 0;
        if (line[n] == '\n') {
            line[n] = 0;
            return 1;
        }
        if (line[n] < ' ' || line[n] > '~') return 0;
        n++;
    }
    return 0;
}

static void append_hex(char *line, const char *bytes) {
    char *to = line + strlen(line);
    for (; *bytes; bytes++) {
        *to++ = HEX[(unsigned char)*bytes >> 4];
        *to++ = HEX[(unsigned char)*bytes & 15];
    }
    *to = 0;
}

/* Appends a word for the service's log and decision: other bytes become _, nothing becomes -. */
static void append_word(char *line, const char *word) {
    static const char permitted[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789._:/@-";
    size_t n = strlen(line), length = strnlen(word, 64);
    line[n++] = ' ';
    for (size_t i = 0; i < length; i++) line[n++] = strchr(permitted, word[i]) ? word[i] : '_';
    if (!length) line[n++] = '-';
    line[n] = 0;
}

/* The user's account; NULL for root, whose login must never depend on the service. */
static const struct passwd *account(pam_handle_t *h) {
    const char *user = NULL;
    if (pam_get_user(h, &user, NULL) != PAM_SUCCESS || !user) return NULL;
    const struct passwd *entry = pam_modutil_getpwnam(h, user);
    return entry && entry->pw_uid != 0 ? entry : NULL;
}

/* The account; NULL also for a remote request. */
static const struct passwd *local_account(pam_handle_t *h) {
    char own[256] = "";
    const char *rhost = item(h, PAM_RHOST);
    gethostname(own, sizeof own - 1);
    /* With pam_rhost in sudoers, sudo states the name of this machine. */
    return *rhost && strcmp(rhost, own) ? NULL : account(h);
}

static void forget(pam_handle_t *h, void *data, int status) {
    (void)h, (void)status;
    if (!data) return;
    explicit_bzero(data, sizeof(struct handle));
    free(data);
}

/* Stores "HANDLE KIND" for the session part. */
static void keep(pam_handle_t *h, uid_t user, const char *text) {
    if (strlen(text) < HANDLE + 2 || strspn(text, HEX) != HANDLE || text[HANDLE] != ' ') return;
    const char *kind = text + HANDLE + 1;
    if (strcmp(kind, "gnome") && strcmp(kind, "kwallet")) return;
    struct handle *data = calloc(1, sizeof *data);
    if (!data) return;
    memcpy(data->text, text, HANDLE);
    strcpy(data->kind, kind);
    data->user = user;
    if (pam_set_data(h, data_name, data, forget) != PAM_SUCCESS) forget(h, data, 0);
}

/* The result of a proof. */
static int conclude(pam_handle_t *h, uid_t user, const char *line) {
    if (!strcmp(line, "yes")) return PAM_SUCCESS;
    if (!strncmp(line, "yes ", 4)) {
        keep(h, user, line + 4);
        return PAM_SUCCESS;
    }
    if (!strncmp(line, "no ", 3) && strlen(line) <= 5)
        pam_error(h, "The PIN is wrong. Attempts left: %s.", line + 3);
    else if (!strcmp(line, "no"))
        pam_error(h, "The finger was not recognized.");
    else if (!strcmp(line, "locked"))
        pam_error(h, "The PIN is locked. Use your password or finger.");
    else
        return PAM_AUTHINFO_UNAVAIL;
    return PAM_AUTH_ERR;
}

static int ask_finger(pam_handle_t *h, uid_t user, int fd) {
    char line[ANSWER] = "finger";
    if (!send_line(fd, line)) return PAM_AUTHINFO_UNAVAIL;
    int result = PAM_AUTHINFO_UNAVAIL;
    long end = now() + FINGER;
    while (read_line(fd, line, end - now())) {
        if (!strcmp(line, "touch")) {
            pam_info(h, "Place your finger on the reader.");
            continue;
        }
        result = conclude(h, user, line);
        break;
    }
    explicit_bzero(line, sizeof line);
    return result;
}

/* Prompts once. 4 to 16 digits are a PIN; any other text is the password of the next module, without a further prompt. */
static int ask_pin(pam_handle_t *h, uid_t user, int fd, int has_pin, int has_finger) {
    char *answer = NULL, line[ANSWER];
    const char *prompt = !has_finger ? "PIN or password: "
        : has_pin                    ? "PIN or password; Enter for the finger: "
                                     : "Password; Enter for the finger: ";
    if (pam_prompt(h, PAM_PROMPT_ECHO_OFF, &answer, "%s", prompt) != PAM_SUCCESS || !answer) return PAM_AUTHINFO_UNAVAIL;
    size_t length = strlen(answer);
    int result = PAM_AUTHINFO_UNAVAIL;
    if (length == 0) {
        if (has_finger) result = ask_finger(h, user, fd);
    } else if (has_pin && length >= 4 && length <= 16 && strspn(answer, "0123456789") == length) {
        snprintf(line, sizeof line, "pin %s", answer);
        if (send_line(fd, line) && read_line(fd, line, TPM)) result = conclude(h, user, line);
        explicit_bzero(line, sizeof line);
    } else {
        pam_set_item(h, PAM_AUTHTOK, answer);
    }
    explicit_bzero(answer, length);
    free(answer);
    return result;
}

/* PAM accepted the password: the service may open the user's record with it. */
static int learn(pam_handle_t *h) {
    const char *password = item(h, PAM_AUTHTOK);
    const void *known = NULL;
    const struct passwd *user;
    if (!*password || strlen(password) > PASSWORD || geteuid() != 0 || !(user = local_account(h)))
        return PAM_IGNORE;
    if (pam_get_data(h, data_name, &known) == PAM_SUCCESS && known) return PAM_IGNORE;
    /* The user has waited for the service already. */
    if (pam_get_data(h, late_name, &known) == PAM_SUCCESS && known) return PAM_IGNORE;
    char line[REQUEST], answer[ANSWER];
    int fd = open_service();
    if (fd < 0) return PAM_IGNORE;
    snprintf(line, sizeof line, "learned %u ", (unsigned)user->pw_uid);
    append_hex(line, password);
    if (send_line(fd, line) && read_line(fd, answer, FIRST) && !strcmp(answer, "wait") && read_line(fd, answer, SCRYPT) &&
        !strncmp(answer, "handle ", 7))
        keep(h, user->pw_uid, answer + 7);
    explicit_bzero(answer, sizeof answer);
    close(fd);
    return PAM_IGNORE;
}

int pam_sm_authenticate(pam_handle_t *h, int flags, int argc, const char **argv) {
    (void)flags; /* With PAM_SILENT, sudo still shows the texts, which say what to do. */
    struct options o = parse(argc, argv);
    if (o.learn) return learn(h);
    const struct passwd *user = local_account(h);
    if (!user) return PAM_AUTHINFO_UNAVAIL;
    uid_t id = user->pw_uid;
    int fd = open_service(), result = PAM_AUTHINFO_UNAVAIL;
    if (fd < 0) return result;
    char line[ANSWER];
    snprintf(line, sizeof line, "auth %u", (unsigned)id);
    append_word(line, item(h, PAM_SERVICE));
    append_word(line, item(h, PAM_TTY));
    long end = now() + FIRST;
    int is_answered = send_line(fd, line) && read_line(fd, line, FIRST);
    pam_set_data(h, late_name, !is_answered && now() >= end ? (void *)late_name : NULL, NULL);
    if (is_answered) {
        int has_both = !strcmp(line, "ask pin finger");
        int has_pin = (has_both || !strcmp(line, "ask pin")) && !o.finger;
        int has_finger = (has_both || !strcmp(line, "ask finger")) && !o.pin;
        if (o.finger && has_finger) result = ask_finger(h, id, fd);
        else if (has_pin || has_finger) result = ask_pin(h, id, fd, has_pin, has_finger);
    }
    close(fd);
    return result;
}

/* Success: a program that calls this in another process than pam_authenticate has no record of the jump, and would reach
 * pam_deny. */
int pam_sm_setcred(pam_handle_t *h, int flags, int argc, const char **argv) {
    (void)h, (void)flags, (void)argc, (void)argv;
    return PAM_SUCCESS;
}

static int digit(char c) {
    const char *at = c ? strchr(HEX, c) : NULL;
    return at ? (int)(at - HEX) : -1;
}

/* In the child: gives up all ids of root, receives the secret, and becomes the helper. It calls only functions that are safe
 * after the fork of a program with threads; glibc's setresuid is not. */
static void become_helper(int fd, const struct handle *data, gid_t group, char *const environment[]) {
    char line[ANSWER], *arguments[] = {(char *)LATCHKEY_HELPER, (char *)data->kind, NULL};
    unsigned char secret[SECRET];
    size_t count = 0;
    int ends[2];
    sigset_t none;
    sigemptyset(&none);
    /* The host program may have blocked signals, and the helper's programs would keep that. */
    sigprocmask(SIG_SETMASK, &none, NULL);
    setsid();
    if (chdir("/") || syscall(SYS_setgroups, 0, NULL) || syscall(SYS_setresgid, group, group, group) ||
        syscall(SYS_setresuid, data->user, data->user, data->user) || getuid() != data->user || geteuid() != data->user ||
        getgid() != group || getegid() != group)
        _exit(1);
    if (!read_line(fd, line, OPENING)) _exit(1);
    size_t start = strlen("secret ") + strlen(data->kind) + 1;
    if (strlen(line) < start || strncmp(line, "secret ", 7) || strncmp(line + 7, data->kind, start - 8) || line[start - 1] != ' ')
        _exit(1);
    for (const char *at = line + start; *at; at += 2, count++) {
        int high = digit(at[0]), low = high < 0 ? -1 : digit(at[1]);
        if (low < 0 || count == SECRET) _exit(1);
        secret[count] = (unsigned char)(high << 4 | low);
    }
    int is_ready = count > 0 && pipe(ends) == 0 && write(ends[1], secret, count) == (ssize_t)count;
    explicit_bzero(line, sizeof line);
    explicit_bzero(secret, sizeof secret);
    int nowhere = open("/dev/null", O_RDWR);
    if (!is_ready || nowhere < 0 || dup2(ends[0], 0) < 0 || dup2(nowhere, 1) < 0 || dup2(nowhere, 2) < 0) _exit(1);
    /* Descriptors of the host program must not reach the user's programs. */
    if (syscall(SYS_close_range, 3, ~0U, 0)) {
        long limit = sysconf(_SC_OPEN_MAX);
        for (long other = 3; other < limit; other++) close((int)other);
    }
    execve(LATCHKEY_HELPER, arguments, environment);
    _exit(1);
}

/* Starts the helper in the background. The connection belongs to this process, so the service recognizes it. */
static void open_keyring(pam_handle_t *h, const struct handle *data) {
    const struct passwd *user = local_account(h);
    const char *directory = pam_getenv(h, "XDG_RUNTIME_DIR");
    char line[ANSWER], home[1024], runtime[1024], wallet[1100];
    if (!user || user->pw_uid != data->user || geteuid() != 0) return;
    int n = snprintf(home, sizeof home, "HOME=%s", user->pw_dir);
    int m = directory && *directory ? snprintf(runtime, sizeof runtime, "XDG_RUNTIME_DIR=%s", directory)
                                    : snprintf(runtime, sizeof runtime, "XDG_RUNTIME_DIR=/run/user/%u", (unsigned)data->user);
    if (n >= (int)sizeof home || m >= (int)sizeof runtime) return;
    char *environment[] = {home, runtime, (char *)"PATH=/usr/bin:/bin", NULL};
    gid_t group = user->pw_gid;
    int fd = open_service();
    if (fd < 0) return;
    snprintf(line, sizeof line, "secret %u %s", (unsigned)data->user, data->text);
    if (send_line(fd, line)) {
        if (!strcmp(data->kind, "kwallet")) {
            /* The session sends its environment to this socket of the helper's daemon. */
            snprintf(wallet, sizeof wallet, "PAM_KWALLET5_LOGIN=%s/kwallet5.socket", strchr(runtime, '=') + 1);
            pam_putenv(h, wallet);
        }
        pid_t child = fork();
        if (child == 0) {
            /* The second child belongs to init, so the host program never sees its end. */
            if (fork() == 0) become_helper(fd, data, group, environment);
            _exit(0);
        }
        while (child > 0 && waitpid(child, NULL, 0) < 0 && errno == EINTR) {}
    }
    close(fd);
}

int pam_sm_open_session(pam_handle_t *h, int flags, int argc, const char **argv) {
    (void)flags, (void)argc, (void)argv;
    const void *data = NULL;
    if (pam_get_data(h, data_name, &data) == PAM_SUCCESS && data) {
        open_keyring(h, data);
        pam_set_data(h, data_name, NULL, NULL);
    }
    return PAM_SUCCESS; /* A stack in which every module ignores is a denial. */
}

int pam_sm_close_session(pam_handle_t *h, int flags, int argc, const char **argv) {
    (void)h, (void)flags, (void)argc, (void)argv;
    return PAM_SUCCESS;
}

/* The stack reaches this line only after pam_unix changed the password. */
int pam_sm_chauthtok(pam_handle_t *h, int flags, int argc, const char **argv) {
    (void)argc, (void)argv;
    const char *old = item(h, PAM_OLDAUTHTOK), *new = item(h, PAM_AUTHTOK);
    const struct passwd *user;
    if (!(flags & PAM_UPDATE_AUTHTOK) || !*old || !*new || strlen(old) > PASSWORD || strlen(new) > PASSWORD ||
        geteuid() != 0 || !(user = account(h)))
        return PAM_IGNORE;
    char line[REQUEST], answer[ANSWER];
    int fd = open_service(), is_done = 0;
    if (fd < 0 && errno == ENOENT) return PAM_IGNORE;
    snprintf(line, sizeof line, "changed %u ", (unsigned)user->pw_uid);
    append_hex(line, old);
    strcat(line, " ");
    append_hex(line, new);
    if (fd >= 0 && send_line(fd, line) && read_line(fd, answer, FIRST) && !strcmp(answer, "wait") &&
        read_line(fd, answer, 2 * SCRYPT))
        /* none: the user has no record. */
        is_done = !strcmp(answer, "done") || !strcmp(answer, "none");
    explicit_bzero(line, sizeof line);
    if (fd >= 0) close(fd);
    if (!is_done) pam_error(h, "The keyring could not follow the new password. Run: latchkey desktop status");
    return PAM_IGNORE;
}
