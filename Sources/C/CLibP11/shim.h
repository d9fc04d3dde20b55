#include <libp11.h>
#include <openssl/ui.h>
