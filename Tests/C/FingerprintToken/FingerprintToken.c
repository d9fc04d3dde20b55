/* A PKCS#11 module for tests. It wraps another module and verifies a fingerprint instead of a PIN.
 *
 * The file MODULE.conf next to the module has its settings, one NAME=VALUE per line:
 *
 *   module=   the wrapped module, for example a copy of SoftHSM2's
 *   pin=      the user PIN of its token, which programs do not see
 *   verify=   a command for /bin/sh that verifies a finger; its exit status is the result (enum verdict)
 *
 * The module adds CKF_PROTECTED_AUTHENTICATION_PATH to the token's flags. C_Login for CKU_USER and CKU_CONTEXT_SPECIFIC runs the
 * command if the PIN is NULL; with another PIN it returns CKR_PIN_INCORRECT, as a reader with a PIN pad does. The user PIN cannot
 * be changed. All other calls go to the wrapped module. The tests build the module with BuiltProduct.library. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <signal.h>
#include <spawn.h>
#include <stdio.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include <p11-kit/pkcs11.h>

/* The only exported symbol (PKCS#11 2.40 section 5.4). */
CK_RV C_GetFunctionList(CK_FUNCTION_LIST_PTR_PTR list);

/* The exit statuses of the command. Other statuses and signals are sensor failures. */
enum verdict { MATCH = 0, NO_MATCH = 1, CANCELLED = 2, REJECTED = 3, LOCKED = 4 };

extern char **environ;

static struct {
    char module[1024];
    char pin[256];
    char verify[1024];
} settings;

static CK_FUNCTION_LIST_PTR real;
static CK_FUNCTION_LIST shown;

static int is_setting(const char *line, const char *name, char *value, size_t size) {
    size_t length = strlen(name);
    if (strncmp(line, name, length) != 0) return 0;
    return (size_t)snprintf(value, size, "%s", line + length) < size;
}

static int read_settings(void) {
    Dl_info self;
    char path[1024];
    if (!dladdr(&settings, &self)) return 0;
    if ((size_t)snprintf(path, sizeof path, "%s.conf", self.dli_fname) >= sizeof path) return 0;
    FILE *file = fopen(path, "re");
    if (!file) return 0;
    char line[2048];
    int known = 0;
    while (fgets(line, sizeof line, file)) {
        line[strcspn(line, "\n")] = 0;
        known += is_setting(line, "module=", settings.module, sizeof settings.module);
        known += is_setting(line, "pin=", settings.pin, sizeof settings.pin);
        known += is_setting(line, "verify=", settings.verify, sizeof settings.verify);
    }
    fclose(file);
    return known == 3;
}

/* Runs the command with the signals and descriptors of a fresh program; the thread that logs in may block some. */
static int run_verifier(void) {
    char *arguments[] = {"sh", "-c", settings.verify, NULL};
    posix_spawn_file_actions_t files;
    posix_spawnattr_t attributes;
    sigset_t none, all;
    sigemptyset(&none);
    sigfillset(&all);
    posix_spawn_file_actions_init(&files);
    posix_spawn_file_actions_addclosefrom_np(&files, STDERR_FILENO + 1);
    posix_spawnattr_init(&attributes);
    posix_spawnattr_setflags(&attributes, POSIX_SPAWN_SETSIGMASK | POSIX_SPAWN_SETSIGDEF);
    posix_spawnattr_setsigmask(&attributes, &none);
    posix_spawnattr_setsigdefault(&attributes, &all);
    pid_t child;
    int failure = posix_spawn(&child, "/bin/sh", &files, &attributes, arguments, environ);
    posix_spawnattr_destroy(&attributes);
    posix_spawn_file_actions_destroy(&files);
    int status;
    if (failure || waitpid(child, &status, 0) != child || !WIFEXITED(status)) return -1;
    return WEXITSTATUS(status);
}

static CK_RV login(CK_SESSION_HANDLE session, CK_USER_TYPE user, CK_UTF8CHAR_PTR pin, CK_ULONG length) {
    if (user == CKU_SO) return real->C_Login(session, user, pin, length);
    if (pin) return CKR_PIN_INCORRECT;
    switch (run_verifier()) {
    case MATCH: return real->C_Login(session, user, (CK_UTF8CHAR_PTR)settings.pin, strlen(settings.pin));
    case NO_MATCH: return CKR_PIN_INCORRECT;
    case CANCELLED: return CKR_FUNCTION_CANCELED;
    case REJECTED: return CKR_FUNCTION_REJECTED;
    case LOCKED: return CKR_PIN_LOCKED;
    default: return CKR_DEVICE_ERROR;
    }
}

static CK_RV get_token_info(CK_SLOT_ID slot, CK_TOKEN_INFO_PTR info) {
    CK_RV result = real->C_GetTokenInfo(slot, info);
    if (result == CKR_OK && (info->flags & CKF_USER_PIN_INITIALIZED)) {
        info->flags |= CKF_PROTECTED_AUTHENTICATION_PATH;
    }
    return result;
}

static CK_RV set_pin(CK_SESSION_HANDLE session, CK_UTF8CHAR_PTR old, CK_ULONG old_length, CK_UTF8CHAR_PTR new,
                     CK_ULONG new_length) {
    CK_SESSION_INFO info;
    CK_RV result = real->C_GetSessionInfo(session, &info);
    if (result != CKR_OK) return result;
    if (info.state != CKS_RW_SO_FUNCTIONS) return CKR_FUNCTION_NOT_SUPPORTED;
    return real->C_SetPIN(session, old, old_length, new, new_length);
}

static CK_RV get_function_list(CK_FUNCTION_LIST_PTR_PTR list);

static CK_RV open_real(void) {
    if (!read_settings()) return CKR_GENERAL_ERROR;
    void *library = dlopen(settings.module, RTLD_NOW | RTLD_LOCAL);
    if (!library) return CKR_GENERAL_ERROR;
    CK_C_GetFunctionList list = (CK_C_GetFunctionList)dlsym(library, "C_GetFunctionList");
    CK_FUNCTION_LIST_PTR found;
    if (!list || list(&found) != CKR_OK) return CKR_GENERAL_ERROR;
    shown = *found;
    shown.C_GetFunctionList = get_function_list;
    shown.C_GetTokenInfo = get_token_info;
    shown.C_Login = login;
    shown.C_SetPIN = set_pin;
    real = found;
    return CKR_OK;
}

/* What is called C_GetFunctionList in a process may be another module's, or p11-kit's, so nothing here uses the name. */
static CK_RV get_function_list(CK_FUNCTION_LIST_PTR_PTR list) {
    if (!list) return CKR_ARGUMENTS_BAD;
    CK_RV result = real ? CKR_OK : open_real();
    if (result == CKR_OK) *list = &shown;
    return result;
}

CK_RV C_GetFunctionList(CK_FUNCTION_LIST_PTR_PTR list) { return get_function_list(list); }
