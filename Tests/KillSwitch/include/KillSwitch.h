#ifndef KILL_SWITCH_H
#define KILL_SWITCH_H

#include <stdint.h>

/// What the one who counts and the one who is counted share: the file that `KILL_SWITCH` names, mapped by both.
struct kill_switch {
    /// Before which effect the process is killed, counted from 1; 0 for never.
    uint64_t lethal;
    /// How many effects there were so far, the lethal one not included.
    uint64_t effects;
    /// How many of them were changes of files.
    uint64_t files;
    /// How many went to local sockets: a software TPM, a bus.
    uint64_t local;
    /// How many went to the network.
    uint64_t network;
};

#endif
