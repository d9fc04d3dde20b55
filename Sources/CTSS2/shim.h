#include <tss2/tss2_tctildr.h>
