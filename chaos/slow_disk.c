/* A disk that takes its time: every wait for it lasts as many milliseconds longer as a file says.
   Preloaded into a process (LD_PRELOAD); the file is named by RASE_SLOW_DISK. */

#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

static void take_time(void) {
    const char *name = getenv("RASE_SLOW_DISK");
    char text[16] = {0};
    int file = name == NULL ? -1 : open(name, O_RDONLY | O_CLOEXEC);
    if (file < 0) return;
    ssize_t length = read(file, text, sizeof text - 1);
    close(file);
    long ms = length > 0 ? strtol(text, NULL, 10) : 0;
    struct timespec left = {ms / 1000, (ms % 1000) * 1000000L};
    /* The call itself: a library that changes the clock must not change this. */
    while (ms > 0 && syscall(SYS_nanosleep, &left, &left) < 0 && errno == EINTR) {}
}

int fsync(int file) {
    static int (*really)(int);
    if (really == NULL) really = (int (*)(int))dlsym(RTLD_NEXT, "fsync");
    take_time();
    return really(file);
}

int fdatasync(int file) {
    static int (*really)(int);
    if (really == NULL) really = (int (*)(int))dlsym(RTLD_NEXT, "fdatasync");
    take_time();
    return really(file);
}
