// Reports the order that Swift's Mutex creates to Thread Sanitizer. scripts/sanitize links it into every program for
// Thread Sanitizer.
//
// The fast paths of a Mutex are inlined, so the sanitizer sees their atomics. The slow paths, in which a thread waits or is
// woken, are in libswiftSynchronization, which is not instrumented (Swift 6.3, Linux). Each function here replaces one of
// them, calls it, and reports the order.
#define _GNU_SOURCE
#include <dlfcn.h>
#include <stdbool.h>
#include <stdint.h>

void __tsan_acquire(void *address);
void __tsan_release(void *address);

#define SWIFT __attribute__((swiftcall))
#define HANDLE __attribute__((swift_context)) void *handle

// Synchronization._MutexHandle._lockSlow(_: UInt32)
#define LOCK "$s15Synchronization12_MutexHandleV9_lockSlowyys6UInt32VF"
// Synchronization._MutexHandle._tryLockSlow() -> Bool
#define TRY_LOCK "$s15Synchronization12_MutexHandleV12_tryLockSlowSbyF"
// Synchronization._MutexHandle._unlockSlow()
#define UNLOCK "$s15Synchronization12_MutexHandleV11_unlockSlowyyF"

SWIFT void lock_slow(uint32_t thread, HANDLE) __asm__(LOCK);
SWIFT bool try_lock_slow(HANDLE) __asm__(TRY_LOCK);
SWIFT void unlock_slow(HANDLE) __asm__(UNLOCK);

SWIFT void lock_slow(uint32_t thread, HANDLE) {
    SWIFT void (*swift)(uint32_t, HANDLE) = dlsym(RTLD_NEXT, LOCK);
    swift(thread, handle);
    __tsan_acquire(handle);
}

SWIFT bool try_lock_slow(HANDLE) {
    SWIFT bool (*swift)(HANDLE) = dlsym(RTLD_NEXT, TRY_LOCK);
    bool is_locked = swift(handle);
    if (is_locked) __tsan_acquire(handle);
    return is_locked;
}

SWIFT void unlock_slow(HANDLE) {
    SWIFT void (*swift)(HANDLE) = dlsym(RTLD_NEXT, UNLOCK);
    __tsan_release(handle);
    swift(handle);
}
