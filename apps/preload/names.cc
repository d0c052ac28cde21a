// Functions that give the kernel the name of a file.
//
// A name is mostly in a page that was just used; but one that was kept for long may have
// left. Each function pins its names and calls the one it stands before.
#include <dirent.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cstdarg>

#include "apps/preload/next.h"
#include "apps/preload/pins.h"

namespace {

using yonder::preload::Access;
using yonder::preload::next;
using yonder::preload::PinSet;

// The third argument of open(), which is there only if a file may be made.
mode_t mode_of(int flags, std::va_list rest) {
  return (flags & (O_CREAT | O_TMPFILE)) != 0 ? va_arg(rest, mode_t) : 0;
}

}  // namespace

#define YONDER_OPEN(name)                                                 \
  YONDER_INTERPOSE int name(const char* path, int flags, ...) {           \
    static const auto call = next<int (*)(const char*, int, ...)>(#name); \
    std::va_list rest;                                                    \
    va_start(rest, flags);                                                \
    const mode_t mode = mode_of(flags, rest);                             \
    va_end(rest);                                                         \
    PinSet pins;                                                          \
    pins.add(path);                                                       \
    return call(path, flags, mode);                                       \
  }
#define YONDER_OPENAT(name)                                                    \
  YONDER_INTERPOSE int name(int at, const char* path, int flags, ...) {        \
    static const auto call = next<int (*)(int, const char*, int, ...)>(#name); \
    std::va_list rest;                                                         \
    va_start(rest, flags);                                                     \
    const mode_t mode = mode_of(flags, rest);                                  \
    va_end(rest);                                                              \
    PinSet pins;                                                               \
    pins.add(path);                                                            \
    return call(at, path, flags, mode);                                        \
  }
YONDER_OPEN(open)
YONDER_OPEN(open64)
YONDER_OPENAT(openat)
YONDER_OPENAT(openat64)

#define YONDER_PATH(result, name, quality, parameters, arguments) \
  YONDER_INTERPOSE result name parameters quality {               \
    static const auto call = next<result(*) parameters>(#name);   \
    PinSet pins;                                                  \
    pins.add(path);                                               \
    return call arguments;                                        \
  }
YONDER_PATH(int, access, noexcept, (const char* path, int mode), (path, mode))
YONDER_PATH(int, unlink, noexcept, (const char* path), (path))
YONDER_PATH(int, rmdir, noexcept, (const char* path), (path))
YONDER_PATH(int, mkdir, noexcept, (const char* path, mode_t mode), (path, mode))
YONDER_PATH(int, chdir, noexcept, (const char* path), (path))
YONDER_PATH(int, chmod, noexcept, (const char* path, mode_t mode), (path, mode))
YONDER_PATH(int, remove, noexcept, (const char* path), (path))
YONDER_PATH(DIR*, opendir, , (const char* path), (path))
YONDER_PATH(FILE*, fopen, , (const char* path, const char* mode), (path, mode))
YONDER_PATH(FILE*, fopen64, , (const char* path, const char* mode), (path, mode))

#define YONDER_STAT(name, type)                                               \
  YONDER_INTERPOSE int name(const char* path, struct type* out) noexcept {    \
    static const auto call = next<int (*)(const char*, struct type*)>(#name); \
    PinSet pins;                                                              \
    pins.add(path);                                                           \
    pins.add_out(out);                                                        \
    return call(path, out);                                                   \
  }
YONDER_STAT(stat, stat)
YONDER_STAT(lstat, stat)
YONDER_STAT(stat64, stat64)
YONDER_STAT(lstat64, stat64)

YONDER_INTERPOSE int fstat(int fd, struct stat* out) noexcept {
  static const auto call = next<int (*)(int, struct stat*)>("fstat");
  PinSet pins;
  pins.add_out(out);
  return call(fd, out);
}

YONDER_INTERPOSE int rename(const char* from, const char* to) noexcept {
  static const auto call = next<decltype(&::rename)>("rename");
  PinSet pins;
  pins.add(from);
  pins.add(to);
  return call(from, to);
}

YONDER_INTERPOSE ssize_t readlink(const char* path, char* out, std::size_t bytes) noexcept {
  static const auto call = next<decltype(&::readlink)>("readlink");
  PinSet pins;
  pins.add(path);
  pins.add(out, bytes, Access::kWrite);
  return call(path, out, bytes);
}

YONDER_INTERPOSE char* getcwd(char* out, std::size_t bytes) noexcept {
  static const auto call = next<decltype(&::getcwd)>("getcwd");
  const PinSet pin(out, bytes, Access::kWrite);
  return call(out, bytes);
}
