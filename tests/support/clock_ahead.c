/* A machine's clock that is set while processes run: with LD_PRELOAD, CLOCK_REALTIME is as many seconds ahead as the
   file $CLOCK_AHEAD says, which is read again every 20 ms. Clocks that nobody can set stay as they are, and who waits
   until a time of day waits as long as by the machine's clock.

   libfaketime 0.9.10, which Debian 12 has, breaks time.sleep of Python 3.11 and later (its issue 426); and a time
   namespace of Linux has no clock of its own for the time of day. */

#define _GNU_SOURCE
#include <dlfcn.h>
#include <fcntl.h>
#include <pthread.h>
#include <semaphore.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <sys/time.h>
#include <threads.h>
#include <time.h>
#include <unistd.h>

typedef int (*gettime)(clockid_t, struct timespec *);

static gettime machine(void) {
    static _Atomic(gettime) found;
    gettime known = atomic_load(&found);
    if (!known) {
        known = (gettime)dlsym(RTLD_NEXT, "clock_gettime");
        atomic_store(&found, known);
    }
    return known;
}

static time_t ahead(void) {
    static _Atomic long long looked, seconds;
    struct timespec now;
    machine()(CLOCK_MONOTONIC, &now);
    long long ms = now.tv_sec * 1000LL + now.tv_nsec / 1000000;
    if (ms - atomic_load(&looked) > 20) {
        atomic_store(&looked, ms);
        const char *path = getenv("CLOCK_AHEAD");
        int file = path ? open(path, O_RDONLY | O_CLOEXEC) : -1;
        if (file >= 0) {
            char text[32] = {0};
            if (read(file, text, sizeof text - 1) > 0)
                atomic_store(&seconds, atoll(text));
            close(file);
        }
    }
    return (time_t)atomic_load(&seconds);
}

int clock_gettime(clockid_t id, struct timespec *at) {
    int code = machine()(id, at);
    if (code == 0 && (id == CLOCK_REALTIME || id == CLOCK_REALTIME_COARSE))
        at->tv_sec += ahead();
    return code;
}

int gettimeofday(struct timeval *at, void *zone) {
    (void)zone;
    struct timespec now;
    int code = clock_gettime(CLOCK_REALTIME, &now);
    at->tv_sec = now.tv_sec;
    at->tv_usec = now.tv_nsec / 1000;
    return code;
}

time_t time(time_t *at) {
    struct timespec now;
    clock_gettime(CLOCK_REALTIME, &now);
    if (at)
        *at = now.tv_sec;
    return now.tv_sec;
}

/* Until when to wait, by the machine's clock: librdkafka waits for times of day. Others give times since the machine
   was started, which are smaller than any time of day. */
static struct timespec until(const struct timespec *at) {
    struct timespec by_machine = *at;
    if (at->tv_sec > 1000000000)
        by_machine.tv_sec -= ahead();
    return by_machine;
}

typedef int (*cond_wait)(pthread_cond_t *, pthread_mutex_t *, const struct timespec *);

int pthread_cond_timedwait(pthread_cond_t *cond, pthread_mutex_t *mutex, const struct timespec *at) {
    static _Atomic(cond_wait) found;
    cond_wait known = atomic_load(&found);
    if (!known) {
        known = (cond_wait)dlvsym(RTLD_NEXT, "pthread_cond_timedwait", "GLIBC_2.3.2"); /* the plain one is older */
        if (!known)
            known = (cond_wait)dlsym(RTLD_NEXT, "pthread_cond_timedwait");
        atomic_store(&found, known);
    }
    struct timespec by_machine = until(at);
    return known(cond, mutex, &by_machine);
}

typedef int (*cnd_wait_until)(cnd_t *, mtx_t *, const struct timespec *);

int cnd_timedwait(cnd_t *cond, mtx_t *mutex, const struct timespec *at) {
    static _Atomic(cnd_wait_until) found;
    cnd_wait_until known = atomic_load(&found);
    if (!known) {
        known = (cnd_wait_until)dlsym(RTLD_NEXT, "cnd_timedwait");
        atomic_store(&found, known);
    }
    struct timespec by_machine = until(at);
    return known(cond, mutex, &by_machine);
}

typedef int (*sem_wait_until)(sem_t *, const struct timespec *);

int sem_timedwait(sem_t *sem, const struct timespec *at) {
    static _Atomic(sem_wait_until) found;
    sem_wait_until known = atomic_load(&found);
    if (!known) {
        known = (sem_wait_until)dlsym(RTLD_NEXT, "sem_timedwait");
        atomic_store(&found, known);
    }
    struct timespec by_machine = until(at);
    return known(sem, &by_machine);
}
