// A clock of the wall that is wrong by CLOCK_SHIFT seconds, for a program that is started with this as LD_PRELOAD.
#define _GNU_SOURCE
#include <stdlib.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

int clock_gettime(clockid_t clock, struct timespec *time) {
    long result = syscall(SYS_clock_gettime, clock, time);
    if (result == 0 && clock == CLOCK_REALTIME) {
        const char *shift = getenv("CLOCK_SHIFT");
        if (shift != NULL) {
            time->tv_sec += strtol(shift, NULL, 10);
        }
    }
    return (int)result;
}
