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
#include <sys/stat.h>
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
/* The maximum length of an account's name (LOGIN_NAME_MAX). */
#define NAME 256
/* A request with a name and two passwords in hexadecimal digits. */
#define REQUEST (2 * NAME + 4 * PASSWORD + 64)
#define HANDLE 64
/* The longest secret, the key of a wallet. */
#define SECRET 56

/* Time limits in milliseconds. FIRST is for all first answers of one attempt to sign in together: the user waits once for a
 * service that hangs. Tests on a busy machine have more patience. */
#ifndef LATCHKEY_PATIENCE
#define LATCHKEY_PATIENCE 1
#endif
#define FIRST (900 + 100 * LATCHKEY_PATIENCE)
#define TPM (10000 * LATCHKEY_PATIENCE)
#define FINGER (14000 * LATCHKEY_PATIENCE)
#define SCRYPT (3000 * LATCHKEY_PATIENCE)
#define HASH (10000 * LATCHKEY_PATIENCE) /* a second one of the password, after that of pam_unix */
#define OPENING (2000 * LATCHKEY_PATIENCE)

#define HEX "0123456789abcdef"
static const char data_name[] = "latchkey_handle";
static const char spent_name[] = "latchkey_spent";

/* What gives the session part the secret of the user's keyring: a connection, or else a text that the service exchanges. */
struct handle {
    int fd;
    char text[HANDLE + 1];
    char kind[8];
    uid_t user;
};

static int has_option(int argc, const char **argv, const char *name) {
    while (argc > 0)
        if (!strcmp(argv[--argc], name)) return 1;
    return 0;
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

/* Connects; ENOENT without a service. The program that called listen(2) must be root: another user could ask for PINs here. */
static int open_service(void) {
    struct sockaddr_un address = {.sun_family = AF_UNIX, .sun_path = LATCHKEY_SOCKET};
    struct ucred peer;
    socklen_t length = sizeof peer;
    int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    if (fd < 0) return -1;
    int is_open = !connect(fd, (struct sockaddr *)&address, sizeof address) &&
                  !getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &peer, &length);
    if (is_open && peer.uid == 0) return fd;
    int cause = is_open ? EPERM : errno;
    close(fd);
    errno = cause;
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

/* What is left of the time for first answers. */
static long left(pam_handle_t *h) {
    const void *spent = NULL;
    return pam_get_data(h, spent_name, &spent) == PAM_SUCCESS ? FIRST - (long)spent : FIRST;
}

/* Counts the time since `start`. */
static void spend(pam_handle_t *h, long start) {
    pam_set_data(h, spent_name, (void *)(FIRST - left(h) + now() - start), NULL);
}

static int read_first(pam_handle_t *h, int fd, char line[ANSWER]) {
    long start = now(), is_read = read_line(fd, line, left(h));
    spend(h, start);
    return (int)is_read;
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

/* Begins a request about an account: its name too, because another account can get its number later. */
static void begin(char line[REQUEST], const char *verb, const struct passwd *user) {
    snprintf(line, 32, "%s %u ", verb, (unsigned)user->pw_uid);
    append_hex(line, user->pw_name);
}

/* The user's account; NULL for root, whose login must never depend on the service. */
static const struct passwd *account(pam_handle_t *h) {
    const char *user = NULL;
    if (pam_get_user(h, &user, NULL) != PAM_SUCCESS || !user) return NULL;
    const struct passwd *entry = pam_modutil_getpwnam(h, user);
    return entry && entry->pw_uid != 0 && strlen(entry->pw_name) <= NAME ? entry : NULL;
}

/* The account; NULL also for a remote request. */
static const struct passwd *local_account(pam_handle_t *h) {
    char own[256] = "";
    const char *rhost = item(h, PAM_RHOST);
    gethostname(own, sizeof own - 1);
    /* With pam_rhost in sudoers, sudo states the name of this machine; xsecurelock follows Linux-PAM's guide. */
    return *rhost && strcmp(rhost, own) && strcmp(rhost, "localhost") ? NULL : account(h);
}

static void forget(pam_handle_t *h, void *data, int status) {
    (void)h, (void)status;
    if (!data) return;
    if (((struct handle *)data)->fd >= 0) close(((struct handle *)data)->fd);
    explicit_bzero(data, sizeof(struct handle));
    free(data);
}

/* Stores a connection that sends a secret, or else (-1) a handle, for the session part. */
static void keep(pam_handle_t *h, uid_t user, int fd, const char *text, const char *kind) {
    int is_known = !strcmp(kind, "gnome") || !strcmp(kind, "kwallet");
    struct handle *data = is_known ? calloc(1, sizeof *data) : NULL;
    if (!data && fd >= 0) close(fd);
    if (!data) return;
    data->fd = fd;
    memcpy(data->text, text, strnlen(text, HANDLE));
    strcpy(data->kind, kind);
    data->user = user;
    if (pam_set_data(h, data_name, data, forget) != PAM_SUCCESS) forget(h, data, 0);
}

/* The result of a proof, and for the user why it was refused. */
static int conclude(pam_handle_t *h, uid_t user, const char *line, char why[ANSWER]) {
    int is_yes = !strncmp(line, "yes", 3) && (line[3] == ' ' || !line[3]);
    if (is_yes && line[3] && strspn(line + 4, HEX) == HANDLE && line[4 + HANDLE] == ' ')
        keep(h, user, -1, line + 4, line + 5 + HANDLE);
    if (is_yes) return PAM_SUCCESS;
    if (!strncmp(line, "no ", 3) && strlen(line) <= 5)
        snprintf(why, ANSWER, "wrong PIN, %s left", line + 3);
    else if (!strcmp(line, "no"))
        strcpy(why, "finger not recognized");
    else if (!strcmp(line, "locked"))
        strcpy(why, "PIN locked");
    return *why ? PAM_AUTH_ERR : PAM_AUTHINFO_UNAVAIL;
}

/* Asks the service, and returns the connection, or -1. The line then says which proofs it accepts. */
static int request(pam_handle_t *h, const struct passwd *user, char line[REQUEST]) {
    int fd = open_service();
    begin(line, "auth", user);
    append_word(line, item(h, PAM_SERVICE));
    append_word(line, item(h, PAM_TTY));
    if (fd < 0 || (send_line(fd, line) && read_first(h, fd, line))) return fd;
    close(fd);
    return -1;
}

/* Asks again if the service closed the connection: it waits two minutes for the user, a greeter without a limit. */
static void renew(pam_handle_t *h, const struct passwd *user, int fd) {
    struct pollfd p = {.fd = fd, .events = POLLIN};
    char line[REQUEST];
    int other = poll(&p, 1, 0) > 0 && left(h) > 0 ? request(h, user, line) : -1;
    if (other >= 0) dup3(other, fd, O_CLOEXEC), close(other);
}

static int ask_finger(pam_handle_t *h, uid_t user, int fd, char why[ANSWER]) {
    char line[ANSWER] = "finger";
    if (!send_line(fd, line)) return PAM_AUTHINFO_UNAVAIL;
    long end = now() + FINGER, is_read;
    while ((is_read = read_line(fd, line, end - now())) && !strcmp(line, "touch"))
        pam_info(h, "Place your finger on the reader.");
    int result = is_read ? conclude(h, user, line, why) : PAM_AUTHINFO_UNAVAIL;
    explicit_bzero(line, sizeof line);
    return result;
}

/* Passes what the user typed to the next module. */
static void pass_on(pam_handle_t *h, char *text) {
    if (*text) pam_set_item(h, PAM_AUTHTOK, text);
    explicit_bzero(text, strlen(text));
    free(text);
}

/* Prompts. 6 to 16 digits are a PIN; any other text is the password of the next module, without a further prompt. After a refused
 * proof, the prompt for the password says why: sddm 0.19 loses a prompt that follows a message at once, and waits for ever. */
static int ask_pin(pam_handle_t *h, const struct passwd *user, int fd, int has_pin, int has_finger) {
    char *answer, line[ANSWER], why[ANSWER] = "";
    const char *prompt = !has_finger ? "PIN or password: "
        : has_pin                    ? "PIN or password; Enter for the finger: "
                                     : "Password; Enter for the finger: ";
    if (pam_prompt(h, PAM_PROMPT_ECHO_OFF, &answer, "%s", prompt) != PAM_SUCCESS || !answer) return PAM_AUTHINFO_UNAVAIL;
    size_t length = strlen(answer);
    int is_pin = has_pin && length >= 6 && length <= 16 && strspn(answer, "0123456789") == length, result = PAM_AUTHINFO_UNAVAIL;
    if (is_pin || length == 0) renew(h, user, fd);
    if (is_pin) {
        snprintf(line, sizeof line, "pin %s", answer);
        explicit_bzero(answer, length);
        if (send_line(fd, line) && read_first(h, fd, line) && (strcmp(line, "wait") || read_line(fd, line, TPM)))
            result = conclude(h, user->pw_uid, line, why);
        explicit_bzero(line, sizeof line);
    } else if (length == 0 && has_finger) {
        result = ask_finger(h, user->pw_uid, fd, why);
    }
    pass_on(h, answer);
    if (*why && pam_prompt(h, PAM_PROMPT_ECHO_OFF, &answer, "Password (%s): ", why) == PAM_SUCCESS && answer) pass_on(h, answer);
    return result;
}

/* In a child: no handlers, blocked or ignored signals, and file modes of the host program. Safe after fork. */
static void reset_process(void) {
    sigset_t none;
    sigemptyset(&none);
    for (int number = 1; number < NSIG; number++) signal(number, SIG_DFL);
    sigprocmask(SIG_SETMASK, &none, NULL);
    umask(022);
}

/* Whether pam_unix's helper accepts the text as the account's password, within a time limit. Another module of the stack can
 * accept another factor after pam_unix refused the text. */
static int is_password(const char *user, const char *text, long limit) {
    char *arguments[] = {(char *)"unix_chkpwd", (char *)user, (char *)"nonull", NULL}, *environment[] = {NULL};
    char answer[ANSWER];
    int ends[4] = {-1, -1, -1, -1};
    size_t n = strlen(text) + 1;
    /* The text fits into the pipe. The helper ends it at the zero byte. */
    int is_ready = !pipe2(ends, O_CLOEXEC) && !pipe2(ends + 2, O_CLOEXEC) && write(ends[1], text, n) == (ssize_t)n;
    pid_t child = is_ready ? fork() : -1;
    if (child == 0) {
        /* It starts the helper, whose end the host program would otherwise take. */
        int status = 1;
        reset_process();
        pid_t checker = fork();
        /* For another real user, the helper checks only that user's password. */
        if (checker == 0 && !syscall(SYS_setresuid, 0, 0, 0) && dup2(ends[0], 0) == 0) {
            execve("/usr/sbin/unix_chkpwd", arguments, environment);
            execve("/usr/bin/unix_chkpwd", arguments, environment);
        }
        if (checker > 0 && waitpid(checker, &status, 0) == checker && !status) status = (int)write(ends[3], "yes\n", 4);
        _exit(1);
    }
    for (int i = 0; i < 4; i++)
        if (i != 2 && ends[i] >= 0) close(ends[i]);
    int is_right = child > 0 && read_line(ends[2], answer, limit) && !strcmp(answer, "yes");
    if (ends[2] >= 0) close(ends[2]);
    if (child > 0) kill(child, SIGKILL);
    while (child > 0 && waitpid(child, NULL, 0) < 0 && errno == EINTR) {}
    return is_right;
}

/* PAM accepted the user: the service may open the user's record with the password. The session part waits for it. */
static int learn(pam_handle_t *h) {
    const char *password = item(h, PAM_AUTHTOK);
    const void *known = NULL;
    const struct passwd *user;
    if (!*password || strlen(password) > PASSWORD || geteuid() != 0 || !(user = local_account(h)))
        return PAM_IGNORE;
    if ((pam_get_data(h, data_name, &known) == PAM_SUCCESS && known) || left(h) <= 0 || access(LATCHKEY_SOCKET, F_OK))
        return PAM_IGNORE;
    char line[REQUEST], answer[ANSWER];
    /* Before the connection, on which the service waits two seconds for the line. */
    int is_checked = is_password(user->pw_name, password, HASH), fd = open_service();
    if (fd < 0) return PAM_IGNORE;
    begin(line, "learned", user);
    strcat(line, is_checked ? " checked " : " unchecked ");
    append_hex(line, password);
    if (send_line(fd, line) && read_first(h, fd, answer) && !strncmp(answer, "wait ", 5))
        keep(h, user->pw_uid, fd, "", answer + 5);
    else
        close(fd);
    return PAM_IGNORE;
}

int pam_sm_authenticate(pam_handle_t *h, int flags, int argc, const char **argv) {
    (void)flags; /* With PAM_SILENT, sudo still shows the texts, which say what to do. */
    if (has_option(argc, argv, "learn")) return learn(h);
    /* An earlier module has asked. */
    if (*item(h, PAM_AUTHTOK)) return PAM_IGNORE;
    const struct passwd *user = local_account(h);
    if (!user) return PAM_AUTHINFO_UNAVAIL;
    /* A further attempt, unless the service was late. */
    if (left(h) > 0) pam_set_data(h, spent_name, NULL, NULL);
    char line[REQUEST], why[ANSWER] = "";
    int fd = left(h) > 0 ? request(h, user, line) : -1, result = PAM_AUTHINFO_UNAVAIL;
    if (fd < 0) return result;
    int has_both = !strcmp(line, "ask pin finger"), is_alone = has_option(argc, argv, "finger");
    int has_pin = (has_both || !strcmp(line, "ask pin")) && !is_alone;
    int has_finger = (has_both || !strcmp(line, "ask finger")) && !has_option(argc, argv, "pin");
    if (is_alone && has_finger) result = ask_finger(h, user->pw_uid, fd, why);
    else if (has_pin || has_finger) result = ask_pin(h, user, fd, has_pin, has_finger);
    if (*why) pam_error(h, "The finger was not recognized.");
    close(fd);
    return result;
}

/* Success: in another process than that of pam_authenticate there is no record of the jump, and pam_deny would follow. */
int pam_sm_setcred(pam_handle_t *h, int flags, int argc, const char **argv) {
    (void)h, (void)flags, (void)argc, (void)argv;
    return PAM_SUCCESS;
}

static int digit(char c) {
    const char *at = c ? strchr(HEX, c) : NULL;
    return at ? (int)(at - HEX) : -1;
}

/* Closes descriptors of the host program, which must not reach the user's programs. */
static void close_from(int first) {
    if (!syscall(SYS_close_range, first, ~0U, 0)) return;
    for (long other = first, limit = sysconf(_SC_OPEN_MAX); other < limit; other++) close((int)other);
}

/* In the child: gives up root's ids, gets the secret, becomes the helper. Safe after fork, as glibc's setresuid is not. */
static void become_helper(int fd, const struct handle *data, gid_t group, char *const environment[]) {
    char line[ANSWER], *arguments[] = {(char *)LATCHKEY_HELPER, (char *)data->kind, NULL};
    unsigned char secret[SECRET];
    size_t count = 0;
    int ends[2];
    reset_process();
    setsid();
    if (chdir("/") || syscall(SYS_setgroups, 0, NULL) || syscall(SYS_setresgid, group, group, group) ||
        syscall(SYS_setresuid, data->user, data->user, data->user) || getuid() != data->user || geteuid() != data->user ||
        getgid() != group || getegid() != group)
        _exit(1);
    /* While it waits, nothing of the host program stays open: a reader of its output would wait too. */
    int nowhere = open("/dev/null", O_RDWR), copy = fcntl(fd, F_DUPFD, 10);
    for (int n = 0; n < 4; n++)
        if (dup2(n < 3 ? nowhere : copy, n) < 0) _exit(1);
    close_from(4);
    if (!read_line(3, line, data->fd < 0 ? OPENING : SCRYPT)) _exit(1);
    size_t start = strlen("secret ") + strlen(data->kind) + 1;
    if (strlen(line) < start || strncmp(line, "secret ", 7) || strncmp(line + 7, data->kind, start - 8) || line[start - 1] != ' ')
        _exit(1);
    for (const char *at = line + start; *at; at += 2, count++) {
        int high = digit(at[0]), low = high < 0 ? -1 : digit(at[1]);
        if (low < 0 || count == SECRET) _exit(1);
        secret[count] = (unsigned char)(high << 4 | low);
    }
    int is_ready = count > 0 && pipe(ends) == 0 && write(ends[1], secret, count) == (ssize_t)count;
    explicit_bzero(line, sizeof line), explicit_bzero(secret, sizeof secret);
    if (!is_ready || dup2(ends[0], 0) < 0) _exit(1);
    close_from(3);
    execve(LATCHKEY_HELPER, arguments, environment);
    _exit(1);
}

/* Starts the helper in the background. The connection belongs to this process, so the service recognizes it. */
static void open_keyring(pam_handle_t *h, const struct handle *data) {
    const struct passwd *user = local_account(h);
    const char *directory = pam_getenv(h, "XDG_RUNTIME_DIR");
    char line[REQUEST], home[1024], runtime[1024], wallet[1100];
    if (!user || user->pw_uid != data->user || geteuid() != 0) return;
    int n = snprintf(home, sizeof home, "HOME=%s", user->pw_dir);
    int m = directory && *directory ? snprintf(runtime, sizeof runtime, "XDG_RUNTIME_DIR=%s", directory)
                                    : snprintf(runtime, sizeof runtime, "XDG_RUNTIME_DIR=/run/user/%u", (unsigned)data->user);
    if (n >= (int)sizeof home || m >= (int)sizeof runtime) return;
    char *environment[] = {home, runtime, (char *)"PATH=/usr/bin:/bin", NULL};
    gid_t group = user->pw_gid;
    int fd = data->fd < 0 ? open_service() : data->fd;
    if (fd < 0) return;
    begin(line, "secret", user);
    strcat(strcat(line, " "), data->text);
    if (fd == data->fd || send_line(fd, line)) {
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
    if (fd != data->fd) close(fd);
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

int pam_sm_close_session(pam_handle_t *h, int flags, int argc, const char **argv) __attribute__((alias("pam_sm_setcred")));

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
    begin(line, "changed", user);
    strcat(line, " ");
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
