#include <libp11.h>
