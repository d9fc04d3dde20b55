/* A PKCS#11 module for tests. It passes calls to another module and injects faults.

   The module reads the file MODULE.script next to it at every call, so a test can change the faults, and an isolated process
   needs no environment variables. It appends the name of each call to MODULE.log. Lines of the script:

     base PATH                       the other module; required, and read once
     FUNCTION return CODE [TIMES]    returns CODE instead of passing the call on, at most TIMES times
     FUNCTION hang                   never returns
     FUNCTION sleep MILLISECONDS     waits before the following lines apply
     FUNCTION hold                   waits until the script no longer has this line
     FUNCTION closesessions [TIMES]  first closes all sessions of the slot, unnoticed by the caller
     FUNCTION finalize [TIMES]       first finalizes the base, unnoticed by the caller
     FUNCTION print [TIMES]          writes a line to descriptor 1
     FUNCTION chdir                  changes the working directory to /
     FUNCTION signals                ignores SIGINT, SIGTERM and SIGCHLD, and ends the process at SIGPIPE
     FUNCTION length NUMBER          replaces the base's length (signature, slots, objects, attributes)
     FUNCTION value TYPE HEX         C_GetAttributeValue: the value of attributes of TYPE
     FUNCTION refuse TYPE CODE       C_GetAttributeValue: CODE for attributes of TYPE, 0 for an unavailable one
     FUNCTION veil TYPE CODE         C_GetAttributeValue: as refuse, without a login
     FUNCTION point FORM             C_GetAttributeValue: CKA_EC_POINT as bare, compressed, bare-compressed, hybrid, long or bits
     FUNCTION cantlock               C_Initialize: rejects callers that use threads
     FUNCTION absent                 C_GetSlotList: no slot has a token
     FUNCTION blank CODE             C_GetTokenInfo: CODE for tokens that are not initialized
     FUNCTION nul                    C_GetTokenInfo: texts are padded with NUL
     FUNCTION label HEX              C_GetTokenInfo: the label of initialized tokens, padded with blanks
     FUNCTION serial HEX             C_GetTokenInfo: the serial number of initialized tokens, padded with blanks
     FUNCTION clear FLAGS            C_GetTokenInfo: initialized tokens do not have these flags
     FUNCTION reader HEX             C_Login: the PIN in place of none, as from a reader's own keys
     FUNCTION readonly CODE          C_OpenSession: CODE for read/write sessions
     FUNCTION hidden                 C_FindObjects: no objects without a login
     FUNCTION context CODE           C_Login: CODE for CKU_CONTEXT_SPECIFIC, after a login for CKR_USER_ALREADY_LOGGED_IN
     FUNCTION refuse TYPE CODE       C_GenerateKeyPair: CODE if the private half has an attribute of TYPE
     FUNCTION drop TYPE              C_GenerateKeyPair: ignores attributes of TYPE of the private half
     FUNCTION id HEX                 C_GenerateKeyPair: another CKA_ID with as many bytes, at most 64
     FUNCTION stored                 C_GenerateKeyPair: stores keys that are not to be stored (CKA_TOKEN)
     FUNCTION der                    C_Sign: an ECDSA signature in DER
     FUNCTION limit NUMBER           C_OpenSession: CKR_SESSION_COUNT for more sessions at the same time
     FUNCTION unstored CODE          C_GenerateKeyPair: CODE for keys that are not stored (CKA_TOKEN)
     FUNCTION login CODE             C_GenerateKeyPair: CODE without a login
     FUNCTION missing                C_GetFunctionList: the list has no pointer to the function

   strtoul reads CODE, TYPE and NUMBER. TIMES counts the uses of a line; a changed line starts a new count. The tests build the
   module with BuiltProduct.library. */

#define _GNU_SOURCE
#include <dlfcn.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <p11-kit/pkcs11.h>

CK_RV C_GetFunctionList(CK_FUNCTION_LIST_PTR_PTR list);

enum { LINE = 1024, LINES = 32 };

static CK_FUNCTION_LIST *base;
static CK_FUNCTION_LIST own;
static CK_SLOT_ID last_slot;
static unsigned long open_sessions;

struct rule {
    char text[LINE];
    char function[64], action[LINE], argument[LINE], more[LINE];
};

/* How often each line was applied. */
static struct {
    char text[LINE];
    unsigned long times;
} spent[LINES];
static int spent_count;

static void path_beside(char *path, size_t size, const char *suffix) {
    Dl_info info;
    path[0] = 0;
    /* A variable, because libp11-kit.so exports functions with the same names as this module. */
    if (dladdr(&own, &info)) snprintf(path, size, "%s%s", info.dli_fname, suffix);
}

static int read_script(struct rule *rules) {
    char path[4096];
    int count = 0;
    path_beside(path, sizeof path, ".script");
    FILE *file = fopen(path, "re");
    if (!file) return 0;
    while (count < LINES && fgets(rules[count].text, LINE, file)) {
        struct rule *rule = &rules[count];
        rule->function[0] = rule->action[0] = rule->argument[0] = rule->more[0] = 0;
        if (sscanf(rule->text, "%63s %1023s %1023s %1023s", rule->function, rule->action, rule->argument, rule->more) > 1)
            count++;
    }
    fclose(file);
    return count;
}

static void log_call(const char *function) {
    char path[4096];
    path_beside(path, sizeof path, ".log");
    int file = open(path, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0600);
    if (file < 0) return;
    char line[80];
    int length = snprintf(line, sizeof line, "%s\n", function);
    if (write(file, line, (size_t)length) < 0) abort();
    close(file);
}

/* Whether a line that may be applied `times` times (empty: always) may be applied again; counts it. */
static int take(const struct rule *rule, const char *times) {
    if (!*times) return 1;
    for (int i = 0; i < spent_count; i++)
        if (!strcmp(spent[i].text, rule->text)) return spent[i].times++ < strtoul(times, NULL, 0);
    if (spent_count == LINES) return 0;
    strcpy(spent[spent_count].text, rule->text);
    spent[spent_count++].times = 1;
    return strtoul(times, NULL, 0) > 0;
}

static int is_held(const char *function) {
    struct rule rules[LINES];
    int count = read_script(rules);
    for (int i = 0; i < count; i++)
        if (!strcmp(rules[i].function, function) && !strcmp(rules[i].action, "hold")) return 1;
    return 0;
}

/* Applies the lines for a call. Returns whether to answer *value without calling the base. */
static int before(const char *function, CK_RV *value) {
    struct rule rules[LINES];
    int count = read_script(rules);
    log_call(function);
    for (int i = 0; i < count; i++) {
        struct rule *rule = &rules[i];
        if (strcmp(rule->function, function)) continue;
        if (!strcmp(rule->action, "hang"))
            for (;;) pause();
        else if (!strcmp(rule->action, "sleep"))
            usleep((useconds_t)strtoul(rule->argument, NULL, 0) * 1000);
        else if (!strcmp(rule->action, "hold"))
            while (is_held(function)) usleep(5000);
        else if (!strcmp(rule->action, "closesessions") && take(rule, rule->argument))
            base->C_CloseAllSessions(last_slot);
        else if (!strcmp(rule->action, "print") && take(rule, rule->argument)) {
            static const char line[] = "Welcome to the hostile module\n";
            if (write(1, line, sizeof line - 1) < 0) abort();
        } else if (!strcmp(rule->action, "chdir")) {
            if (chdir("/")) abort();
        } else if (!strcmp(rule->action, "signals")) {
            signal(SIGINT, SIG_IGN);
            signal(SIGTERM, SIG_IGN);
            signal(SIGCHLD, SIG_IGN);
            signal(SIGPIPE, SIG_DFL);
        } else if (!strcmp(rule->action, "finalize") && take(rule, rule->argument))
            base->C_Finalize(NULL);
        else if (!strcmp(rule->action, "return") && take(rule, rule->more)) {
            *value = strtoul(rule->argument, NULL, 0);
            return 1;
        }
    }
    return 0;
}

/* The length to write instead of the base's. Returns whether the script has one. */
static int false_length(const char *function, CK_ULONG *length) {
    struct rule rules[LINES];
    int count = read_script(rules);
    for (int i = 0; i < count; i++)
        if (!strcmp(rules[i].function, function) && !strcmp(rules[i].action, "length")) {
            *length = strtoul(rules[i].argument, NULL, 0);
            return 1;
        }
    return 0;
}

/* The line of a function with this action. Returns whether the script has one. */
static int find(const char *function, const char *action, struct rule *found) {
    struct rule rules[LINES];
    int count = read_script(rules);
    for (int i = 0; i < count; i++)
        if (!strcmp(rules[i].function, function) && !strcmp(rules[i].action, action)) {
            *found = rules[i];
            return 1;
        }
    return 0;
}

static int is_told(const char *function, const char *action) {
    struct rule rules[LINES];
    int count = read_script(rules);
    for (int i = 0; i < count; i++)
        if (!strcmp(rules[i].function, function) && !strcmp(rules[i].action, action)) return 1;
    return 0;
}

/* Passes a call to the base, unless the script has another answer. */
#define PASS(function, ...)                            \
    do {                                               \
        CK_RV told;                                    \
        if (before(#function, &told)) return told;     \
        return base->function(__VA_ARGS__);            \
    } while (0)

static CK_RV Initialize(void *arguments) {
    CK_C_INITIALIZE_ARGS *given = arguments;
    if (is_told("C_Initialize", "cantlock") && given && given->flags & CKF_OS_LOCKING_OK) return CKR_CANT_LOCK;
    PASS(C_Initialize, arguments);
}
static CK_RV Finalize(void *reserved) {
    open_sessions = 0;
    PASS(C_Finalize, reserved);
}
static CK_RV GetInfo(CK_INFO *info) { PASS(C_GetInfo, info); }
static CK_RV GetSlotInfo(CK_SLOT_ID slot, CK_SLOT_INFO *info) { PASS(C_GetSlotInfo, slot, info); }
static void pad_with_nul(CK_UTF8CHAR *text, size_t length) {
    while (length > 0 && text[length - 1] == ' ') text[--length] = 0;
}

/* The bytes of hexadecimal digits. Returns their number. */
static CK_ULONG read_hexadecimal(const char *text, CK_BYTE *bytes, CK_ULONG room) {
    CK_ULONG length = strlen(text) / 2, i;
    for (i = 0; i < length && i < room; i++) {
        char digits[3] = {text[2 * i], text[2 * i + 1], 0};
        bytes[i] = (CK_BYTE)strtoul(digits, NULL, 16);
    }
    return i;
}

static void replace_text(const char *action, CK_UTF8CHAR *text, size_t length) {
    struct rule rule;
    if (!find("C_GetTokenInfo", action, &rule)) return;
    memset(text, ' ', length);
    read_hexadecimal(rule.argument, text, length);
}

static CK_RV GetTokenInfo(CK_SLOT_ID slot, CK_TOKEN_INFO *info) {
    struct rule rule;
    CK_RV value;
    if (before("C_GetTokenInfo", &value)) return value;
    value = base->C_GetTokenInfo(slot, info);
    if (value != CKR_OK) return value;
    if (find("C_GetTokenInfo", "blank", &rule) && !(info->flags & CKF_TOKEN_INITIALIZED))
        return strtoul(rule.argument, NULL, 0);
    if (info->flags & CKF_TOKEN_INITIALIZED) {
        replace_text("label", info->label, sizeof info->label);
        replace_text("serial", info->serialNumber, sizeof info->serialNumber);
        if (find("C_GetTokenInfo", "clear", &rule)) info->flags &= ~strtoul(rule.argument, NULL, 0);
    }
    if (is_told("C_GetTokenInfo", "nul")) {
        pad_with_nul(info->label, sizeof info->label);
        pad_with_nul(info->manufacturerID, sizeof info->manufacturerID);
        pad_with_nul(info->model, sizeof info->model);
        pad_with_nul(info->serialNumber, sizeof info->serialNumber);
    }
    return value;
}
static CK_RV GetMechanismInfo(CK_SLOT_ID slot, CK_MECHANISM_TYPE type, CK_MECHANISM_INFO *info) {
    PASS(C_GetMechanismInfo, slot, type, info);
}
static CK_RV CloseSession(CK_SESSION_HANDLE session) {
    if (open_sessions > 0) open_sessions--;
    PASS(C_CloseSession, session);
}
static CK_RV GetSessionInfo(CK_SESSION_HANDLE session, CK_SESSION_INFO *info) { PASS(C_GetSessionInfo, session, info); }
static CK_RV Login(CK_SESSION_HANDLE session, CK_USER_TYPE user, CK_BYTE *pin, CK_ULONG count) {
    struct rule rule;
    if (user == CKU_CONTEXT_SPECIFIC && find("C_Login", "context", &rule)) {
        CK_RV code = strtoul(rule.argument, NULL, 0);
        if (code == CKR_USER_ALREADY_LOGGED_IN) base->C_Login(session, user, pin, count);
        return code;
    }
    CK_BYTE typed[64];
    if (!pin && find("C_Login", "reader", &rule)) {
        count = read_hexadecimal(rule.argument, typed, sizeof typed);
        pin = typed;
    }
    PASS(C_Login, session, user, pin, count);
}
static CK_RV Logout(CK_SESSION_HANDLE session) { PASS(C_Logout, session); }
static CK_RV FindObjectsInit(CK_SESSION_HANDLE session, CK_ATTRIBUTE *template, CK_ULONG count) {
    PASS(C_FindObjectsInit, session, template, count);
}
static CK_RV FindObjectsFinal(CK_SESSION_HANDLE session) { PASS(C_FindObjectsFinal, session); }
static CK_RV DestroyObject(CK_SESSION_HANDLE session, CK_OBJECT_HANDLE object) {
    PASS(C_DestroyObject, session, object);
}
static CK_RV SignInit(CK_SESSION_HANDLE session, CK_MECHANISM *mechanism, CK_OBJECT_HANDLE key) {
    PASS(C_SignInit, session, mechanism, key);
}
static CK_RV DeriveKey(CK_SESSION_HANDLE session, CK_MECHANISM *mechanism, CK_OBJECT_HANDLE key, CK_ATTRIBUTE *template,
                       CK_ULONG count, CK_OBJECT_HANDLE *object) {
    PASS(C_DeriveKey, session, mechanism, key, template, count, object);
}
static int is_logged_in(CK_SESSION_HANDLE session) {
    CK_SESSION_INFO info;
    return base->C_GetSessionInfo(session, &info) == CKR_OK && info.state != CKS_RW_PUBLIC_SESSION &&
           info.state != CKS_RO_PUBLIC_SESSION;
}

static CK_RV GenerateKeyPair(CK_SESSION_HANDLE session, CK_MECHANISM *mechanism, CK_ATTRIBUTE *public_template,
                             CK_ULONG public_count, CK_ATTRIBUTE *private_template, CK_ULONG private_count,
                             CK_OBJECT_HANDLE *public_key, CK_OBJECT_HANDLE *private_key) {
    struct rule rule;
    CK_ATTRIBUTE public_copy[LINES], private_copy[LINES];
    CK_BYTE id[64];
    CK_ULONG count = 0, i;
    if (public_count > LINES || private_count > LINES) return CKR_GENERAL_ERROR;
    if (find("C_GenerateKeyPair", "unstored", &rule))
        for (i = 0; i < private_count; i++)
            if (private_template[i].type == CKA_TOKEN && !*(CK_BBOOL *)private_template[i].pValue)
                return strtoul(rule.argument, NULL, 0);
    if (find("C_GenerateKeyPair", "login", &rule) && !is_logged_in(session)) return strtoul(rule.argument, NULL, 0);
    if (find("C_GenerateKeyPair", "refuse", &rule))
        for (i = 0; i < private_count; i++)
            if (private_template[i].type == strtoul(rule.argument, NULL, 0)) return strtoul(rule.more, NULL, 0);
    memcpy(public_copy, public_template, public_count * sizeof *public_template);
    static CK_BBOOL yes = CK_TRUE;
    int stores = is_told("C_GenerateKeyPair", "stored");
    for (i = 0; stores && i < public_count; i++)
        if (public_copy[i].type == CKA_TOKEN) public_copy[i].pValue = &yes;
    int drops = find("C_GenerateKeyPair", "drop", &rule);
    for (i = 0; i < private_count; i++)
        if (!drops || private_template[i].type != strtoul(rule.argument, NULL, 0))
            private_copy[count++] = private_template[i];
    for (i = 0; stores && i < count; i++)
        if (private_copy[i].type == CKA_TOKEN) private_copy[i].pValue = &yes;
    public_template = public_copy;
    private_template = private_copy;
    private_count = count;
    if (find("C_GenerateKeyPair", "id", &rule)) {
        CK_ATTRIBUTE own_id = {CKA_ID, id, read_hexadecimal(rule.argument, id, sizeof id)};
        for (i = 0; i < public_count; i++)
            if (public_copy[i].type == CKA_ID) public_copy[i] = own_id;
        for (i = 0; i < private_count; i++)
            if (private_copy[i].type == CKA_ID) private_copy[i] = own_id;
    }
    PASS(C_GenerateKeyPair, session, mechanism, public_template, public_count, private_template, private_count,
         public_key, private_key);
}

static CK_RV OpenSession(CK_SLOT_ID slot, CK_FLAGS flags, void *application, CK_NOTIFY notify,
                         CK_SESSION_HANDLE *session) {
    struct rule rule;
    last_slot = slot;
    if (flags & CKF_RW_SESSION && find("C_OpenSession", "readonly", &rule)) return strtoul(rule.argument, NULL, 0);
    if (find("C_OpenSession", "limit", &rule) && open_sessions >= strtoul(rule.argument, NULL, 0))
        return CKR_SESSION_COUNT;
    CK_RV value;
    if (before("C_OpenSession", &value)) return value;
    value = base->C_OpenSession(slot, flags, application, notify, session);
    if (value == CKR_OK) open_sessions++;
    return value;
}

static CK_RV GetSlotList(CK_BBOOL with_token, CK_SLOT_ID *slots, CK_ULONG *count) {
    CK_RV value;
    if (before("C_GetSlotList", &value)) return value;
    if (with_token && is_told("C_GetSlotList", "absent")) {
        *count = 0;
        return CKR_OK;
    }
    value = base->C_GetSlotList(with_token, slots, count);
    false_length("C_GetSlotList", count);
    return value;
}

static CK_RV FindObjects(CK_SESSION_HANDLE session, CK_OBJECT_HANDLE *objects, CK_ULONG room, CK_ULONG *count) {
    CK_RV value;
    if (before("C_FindObjects", &value)) return value;
    value = base->C_FindObjects(session, objects, room, count);
    if (value == CKR_OK && is_told("C_FindObjects", "hidden") && !is_logged_in(session)) *count = 0;
    false_length("C_FindObjects", count);
    return value;
}

/* An INTEGER of 32 bytes in DER, at most 35 bytes. */
static CK_ULONG put_integer(CK_BYTE *to, const CK_BYTE *number) {
    CK_ULONG skipped = 0;
    while (skipped < 31 && !number[skipped]) skipped++;
    CK_ULONG sign = number[skipped] & 0x80 ? 1 : 0, length = 32 - skipped;
    to[0] = 2;
    to[1] = (CK_BYTE)(length + sign);
    to[2] = 0;
    memcpy(to + 2 + sign, number + skipped, length);
    return 2 + sign + length;
}

static CK_RV Sign(CK_SESSION_HANDLE session, CK_BYTE *data, CK_ULONG data_length, CK_BYTE *signature, CK_ULONG *length) {
    CK_RV value;
    if (before("C_Sign", &value)) return value;
    CK_ULONG room = *length;
    value = base->C_Sign(session, data, data_length, signature, length);
    if (value == CKR_OK && is_told("C_Sign", "der") && *length == 64 && room >= 72) {
        CK_BYTE der[72];
        CK_ULONG count = 2 + put_integer(der + 2, signature);
        count += put_integer(der + count, signature + 32);
        der[0] = 0x30;
        der[1] = (CK_BYTE)(count - 2);
        memcpy(signature, der, count);
        *length = count;
    }
    false_length("C_Sign", length);
    return value;
}

/* Writes a point in another form than DER of the uncompressed point, of 67 bytes. Returns the length. */
static CK_ULONG reshape(const char *form, CK_BYTE *value) {
    CK_BYTE point[65];
    memcpy(point, value + 2, sizeof point);
    CK_BYTE parity = point[64] & 1;
    CK_ULONG length = strstr(form, "compressed") ? 33 : 65, head = 2;
    if (length == 33) point[0] = 2 + parity;
    if (!strcmp(form, "hybrid")) point[0] = 6 + parity;
    value[0] = 4;
    value[1] = (CK_BYTE)length;
    if (!strncmp(form, "bare", 4)) head = 0;
    if (!strcmp(form, "long")) value[1] = 0x81, value[2] = (CK_BYTE)length, head = 3;
    if (!strcmp(form, "bits")) value[0] = 3, value[1] = (CK_BYTE)(length + 1), value[2] = 0, head = 3;
    memcpy(value + head, point, length);
    return head + length;
}

static CK_RV GetAttributeValue(CK_SESSION_HANDLE session, CK_OBJECT_HANDLE object, CK_ATTRIBUTE *attributes,
                               CK_ULONG count) {
    struct rule rules[LINES];
    CK_RV value;
    CK_ULONG room = count ? attributes[0].ulValueLen : 0;
    if (before("C_GetAttributeValue", &value)) return value;
    value = base->C_GetAttributeValue(session, object, attributes, count);
    int lines = read_script(rules);
    for (int i = 0; i < lines; i++) {
        if (strcmp(rules[i].function, "C_GetAttributeValue")) continue;
        for (CK_ULONG j = 0; j < count; j++) {
            if (!strcmp(rules[i].action, "length"))
                attributes[j].ulValueLen = strtoul(rules[i].argument, NULL, 0);
            else if ((!strcmp(rules[i].action, "refuse") ||
                      (!strcmp(rules[i].action, "veil") && !is_logged_in(session))) &&
                     attributes[j].type == strtoul(rules[i].argument, NULL, 0)) {
                attributes[j].ulValueLen = CK_UNAVAILABLE_INFORMATION;
                value = strtoul(rules[i].more, NULL, 0);
            } else if (!strcmp(rules[i].action, "point") && attributes[j].type == CKA_EC_POINT && value == CKR_OK &&
                       attributes[j].ulValueLen == 67 && room >= 68)
                attributes[j].ulValueLen = reshape(rules[i].argument, attributes[j].pValue);
            else if (!strcmp(rules[i].action, "value") && attributes[j].type == strtoul(rules[i].argument, NULL, 0)) {
                CK_ULONG length = strlen(rules[i].more) / 2;
                if (length > attributes[j].ulValueLen && value == CKR_OK) return CKR_BUFFER_TOO_SMALL;
                for (CK_ULONG k = 0; k < length; k++) {
                    char digits[3] = {rules[i].more[2 * k], rules[i].more[2 * k + 1], 0};
                    ((CK_BYTE *)attributes[j].pValue)[k] = (CK_BYTE)strtoul(digits, NULL, 16);
                }
                attributes[j].ulValueLen = length;
                value = CKR_OK;
            }
        }
    }
    return value;
}

static int load_base(void) {
    struct rule rules[LINES];
    int count = read_script(rules);
    for (int i = 0; i < count; i++) {
        if (strcmp(rules[i].function, "base")) continue;
        void *module = dlopen(rules[i].action, RTLD_NOW | RTLD_LOCAL);
        if (!module) return 0;
        CK_C_GetFunctionList list = (CK_C_GetFunctionList)dlsym(module, "C_GetFunctionList");
        return list && list(&base) == CKR_OK;
    }
    return 0;
}

__attribute__((visibility("default"))) CK_RV C_GetFunctionList(CK_FUNCTION_LIST_PTR_PTR list) {
    CK_RV value;
    if (before("C_GetFunctionList", &value)) return value;
    if (!base && !load_base()) return CKR_GENERAL_ERROR;
    own = *base;
    own.C_Initialize = Initialize;
    own.C_Finalize = Finalize;
    own.C_GetInfo = GetInfo;
    own.C_GetSlotList = GetSlotList;
    own.C_GetSlotInfo = GetSlotInfo;
    own.C_GetTokenInfo = GetTokenInfo;
    own.C_GetMechanismInfo = GetMechanismInfo;
    own.C_OpenSession = OpenSession;
    own.C_CloseSession = CloseSession;
    own.C_GetSessionInfo = GetSessionInfo;
    own.C_Login = Login;
    own.C_Logout = Logout;
    own.C_FindObjectsInit = FindObjectsInit;
    own.C_FindObjects = FindObjects;
    own.C_FindObjectsFinal = FindObjectsFinal;
    own.C_GetAttributeValue = GetAttributeValue;
    own.C_GenerateKeyPair = GenerateKeyPair;
    own.C_SignInit = SignInit;
    own.C_Sign = Sign;
    own.C_DeriveKey = DeriveKey;
    own.C_DestroyObject = DestroyObject;
    if (is_told("C_GetInfo", "missing")) own.C_GetInfo = NULL;
    if (is_told("C_GetSlotInfo", "missing")) own.C_GetSlotInfo = NULL;
    if (is_told("C_GetSessionInfo", "missing")) own.C_GetSessionInfo = NULL;
    if (is_told("C_Logout", "missing")) own.C_Logout = NULL;
    if (is_told("C_Login", "missing")) own.C_Login = NULL;
    if (is_told("C_GetMechanismInfo", "missing")) own.C_GetMechanismInfo = NULL;
    if (is_told("C_SignInit", "missing")) own.C_SignInit = NULL;
    if (is_told("C_GenerateKeyPair", "missing")) own.C_GenerateKeyPair = NULL;
    if (is_told("C_DeriveKey", "missing")) own.C_DeriveKey = NULL;
    *list = &own;
    return CKR_OK;
}
