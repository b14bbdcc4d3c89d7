/* A full disk for one data folder: while the flag file exists, no file under the folder can grow.
 * Writing over what a file already holds still works, as it does on a real full disk. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/uio.h>
#include <unistd.h>

static int grows(int fd, off_t until) {
    const char *folder = getenv("FULL_DISK_FOLDER"), *flag = getenv("FULL_DISK_FLAG");
    char link[64], path[PATH_MAX];
    struct stat now;
    if (!folder || !flag || access(flag, F_OK) != 0) return 0;
    snprintf(link, sizeof link, "/proc/self/fd/%d", fd);
    ssize_t size = readlink(link, path, sizeof path - 1);
    if (size < 0) return 0;
    path[size] = 0;
    if (strncmp(path, folder, strlen(folder)) != 0 || fstat(fd, &now) != 0 || !S_ISREG(now.st_mode)) return 0;
    return until < 0 || until > now.st_size;
}

#define REAL(name) static __typeof__(&name) real; if (!real) real = (__typeof__(&name))dlsym(RTLD_NEXT, #name)
#define REFUSE_GROWTH(fd, until) do { if (grows(fd, until)) { errno = ENOSPC; return -1; } } while (0)

ssize_t write(int fd, const void *data, size_t size) {
    REAL(write);
    off_t at = lseek(fd, 0, SEEK_CUR);
    if (at >= 0) REFUSE_GROWTH(fd, at + (off_t)size);
    return real(fd, data, size);
}

ssize_t pwrite(int fd, const void *data, size_t size, off_t at) {
    REAL(pwrite);
    REFUSE_GROWTH(fd, at + (off_t)size);
    return real(fd, data, size, at);
}

ssize_t pwrite64(int fd, const void *data, size_t size, off_t at) { return pwrite(fd, data, size, at); }

ssize_t pwritev(int fd, const struct iovec *parts, int count, off_t at) {
    REAL(pwritev);
    off_t until = at;
    for (int i = 0; i < count; i++) until += (off_t)parts[i].iov_len;
    REFUSE_GROWTH(fd, until);
    return real(fd, parts, count, at);
}

ssize_t pwritev64(int fd, const struct iovec *parts, int count, off_t at) { return pwritev(fd, parts, count, at); }

int fallocate(int fd, int mode, off_t at, off_t size) {
    REAL(fallocate);
    REFUSE_GROWTH(fd, at + size);
    return real(fd, mode, at, size);
}

int posix_fallocate(int fd, off_t at, off_t size) {
    REAL(posix_fallocate);
    return grows(fd, at + size) ? ENOSPC : real(fd, at, size);
}

int posix_fallocate64(int fd, off_t at, off_t size) { return posix_fallocate(fd, at, size); }
