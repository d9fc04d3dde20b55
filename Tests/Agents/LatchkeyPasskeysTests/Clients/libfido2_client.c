/* Uses an authenticator with libfido2, through a UNIX socket that carries HID packets.
 * Usage: client SOCKET */
#include <fido.h>
#include <fido/es256.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

struct credential {
    unsigned char id[64], key[64];
    size_t count;
};

static const char *path;
static const unsigned char hash[32] = {1};

static void *node_open(const char *name)
{
    struct sockaddr_un address = {.sun_family = AF_UNIX};
    int *node = malloc(sizeof *node);

    (void)name;
    strncpy(address.sun_path, path, sizeof address.sun_path - 1);
    if (node == NULL || (*node = socket(AF_UNIX, SOCK_SEQPACKET, 0)) < 0 ||
        connect(*node, (struct sockaddr *)&address, sizeof address) != 0) {
        free(node);
        return NULL;
    }
    return node;
}

static void node_close(void *node)
{
    close(*(int *)node);
    free(node);
}

static int node_read(void *node, unsigned char *bytes, size_t count, int milliseconds)
{
    struct pollfd ready = {*(int *)node, POLLIN, 0};

    return poll(&ready, 1, milliseconds) == 1 ? (int)recv(ready.fd, bytes, count, 0) : -1;
}

static int node_write(void *node, const unsigned char *bytes, size_t count)
{
    /* The first byte is the number of the report. */
    return send(*(int *)node, bytes + 1, count - 1, MSG_NOSIGNAL) < 0 ? -1 : (int)count;
}

static fido_dev_t *opened(void)
{
    static const fido_dev_io_t io = {node_open, node_close, node_read, node_write};
    fido_dev_t *device = fido_dev_new();

    if (fido_dev_set_io_functions(device, &io) != FIDO_OK || fido_dev_open(device, "socket") != FIDO_OK) {
        fprintf(stderr, "the device does not open\n");
        exit(1);
    }
    return device;
}

static void closed(fido_dev_t *device)
{
    fido_dev_close(device);
    fido_dev_free(&device);
}

static void expect(const char *name, int result, int wanted, int condition)
{
    if (result != wanted || !condition) {
        printf("%s FAILED: %s, condition %d\n", name, fido_strerr(result), condition);
        exit(1);
    }
    printf("%s ok\n", name);
}

static int create(struct credential *made, const char *user, int extensions, const struct credential *excluded,
                  int *verified)
{
    fido_dev_t *device = opened();
    fido_cred_t *credential = fido_cred_new();
    int result;

    fido_cred_set_type(credential, COSE_ES256);
    fido_cred_set_clientdata_hash(credential, hash, sizeof hash);
    fido_cred_set_rp(credential, "example.org", "Example");
    fido_cred_set_user(credential, (const unsigned char *)user, strlen(user), user, "A user", NULL);
    if (extensions) {
        fido_cred_set_extensions(credential, FIDO_EXT_HMAC_SECRET | FIDO_EXT_CRED_PROTECT);
        fido_cred_set_prot(credential, FIDO_CRED_PROT_UV_REQUIRED);
        fido_cred_set_rk(credential, FIDO_OPT_TRUE);
        fido_cred_set_uv(credential, FIDO_OPT_TRUE);
    }
    if (excluded != NULL)
        fido_cred_exclude(credential, excluded->id, excluded->count);
    result = fido_dev_make_cred(device, credential, NULL);
    if (result == FIDO_OK) {
        *verified = fido_cred_verify_self(credential) == FIDO_OK && (fido_cred_flags(credential) & 0x45) == 0x45;
        made->count = fido_cred_id_len(credential);
        memcpy(made->id, fido_cred_id_ptr(credential), made->count);
        memcpy(made->key, fido_cred_pubkey_ptr(credential), sizeof made->key);
    }
    fido_cred_free(&credential);
    closed(device);
    return result;
}

/* output: 64 bytes for hmac-secret, or NULL. silent: a probe. */
static int login(const struct credential *credential, const struct credential *listed, fido_opt_t uv, int silent,
                 unsigned char *output, int *verified)
{
    static const unsigned char salt[64] = {7};
    fido_dev_t *device = opened();
    fido_assert_t *assertion = fido_assert_new();
    es256_pk_t *key = es256_pk_new();
    int result;

    fido_assert_set_clientdata_hash(assertion, hash, sizeof hash);
    fido_assert_set_rp(assertion, "example.org");
    fido_assert_set_uv(assertion, uv);
    if (listed != NULL)
        fido_assert_allow_cred(assertion, listed->id, listed->count);
    if (silent)
        fido_assert_set_up(assertion, FIDO_OPT_FALSE);
    if (output != NULL) {
        fido_assert_set_extensions(assertion, FIDO_EXT_HMAC_SECRET);
        fido_assert_set_hmac_salt(assertion, salt, sizeof salt);
    }
    result = fido_dev_get_assert(device, assertion, NULL);
    if (result == FIDO_OK && credential != NULL) {
        es256_pk_from_ptr(key, credential->key, sizeof credential->key);
        *verified = fido_assert_count(assertion) == 1 && (fido_assert_flags(assertion, 0) & 5) == 5 &&
                    fido_assert_verify(assertion, 0, COSE_ES256, key) == FIDO_OK;
        if (output != NULL && fido_assert_hmac_secret_len(assertion, 0) == 64)
            memcpy(output, fido_assert_hmac_secret_ptr(assertion, 0), 64);
    } else if (result == FIDO_OK) {
        *verified = fido_assert_flags(assertion, 0) == 0;
    }
    es256_pk_free(&key);
    fido_assert_free(&assertion);
    closed(device);
    return result;
}

int main(int count, char **arguments)
{
    struct credential plain = {0}, resident = {0}, unknown = {.id = {9}, .count = 32};
    unsigned char outputs[2][64] = {{0}};
    const unsigned char zeros[64] = {0};
    int result, verified = 0, retries = 0;
    fido_dev_t *device;

    if (count != 2)
        return 2;
    path = arguments[1];
    setvbuf(stdout, NULL, _IOLBF, 0);
    fido_init(0);

    device = opened();
    verified = fido_dev_is_fido2(device) && fido_dev_has_uv(device) && !fido_dev_has_pin(device) &&
               fido_dev_supports_cred_prot(device) && !fido_dev_supports_credman(device);
    closed(device);
    expect("info", FIDO_OK, FIDO_OK, verified);

    result = create(&plain, "ada", 0, NULL, &verified);
    expect("create", result, FIDO_OK, verified);
    result = create(&resident, "eve", 1, NULL, &verified);
    expect("create rk uv hmac-secret credProtect", result, FIDO_OK, verified);
    result = login(&plain, &plain, FIDO_OPT_OMIT, 0, NULL, &verified);
    expect("login", result, FIDO_OK, verified);
    result = login(&resident, &resident, FIDO_OPT_TRUE, 0, NULL, &verified);
    expect("login uv", result, FIDO_OK, verified);
    result = login(&resident, &resident, FIDO_OPT_TRUE, 0, outputs[0], &verified);
    expect("login hmac-secret", result, FIDO_OK, verified && memcmp(outputs[0], zeros, 64) != 0);
    result = login(&resident, &resident, FIDO_OPT_TRUE, 0, outputs[1], &verified);
    expect("same outputs", result, FIDO_OK, verified && memcmp(outputs[0], outputs[1], 64) == 0);
    result = login(&resident, NULL, FIDO_OPT_TRUE, 0, NULL, &verified);
    expect("login without a list", result, FIDO_OK, verified);
    result = login(NULL, &resident, FIDO_OPT_OMIT, 1, NULL, &verified);
    expect("probe", result, FIDO_OK, verified);
    result = create(&unknown, "max", 0, &plain, &verified);
    expect("excluded", result, FIDO_ERR_CREDENTIAL_EXCLUDED, 1);
    result = login(NULL, &unknown, FIDO_OPT_OMIT, 1, NULL, &verified);
    expect("unknown probe", result, FIDO_ERR_NO_CREDENTIALS, 1);

    device = opened();
    expect("reset refused", fido_dev_reset(device), FIDO_ERR_NOT_ALLOWED, 1);
    closed(device);
    device = opened();
    result = fido_dev_get_uv_retry_count(device, &retries);
    expect("retries", result, FIDO_OK, retries > 0);
    closed(device);
    return 0;
}
