// System calls and library functions that move bytes between the kernel and the program.
//
// Long transfers go in pieces that fit into local memory: as far as a short count is what
// the call may return anyway it is returned, and where programs rely on all of it (write,
// fread, fwrite) the pieces follow each other.
#include <fcntl.h>
#include <stdio.h>
#include <sys/random.h>
#include <sys/socket.h>
#include <sys/uio.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>

#include "apps/preload/next.h"
#include "apps/preload/pins.h"
#include "apps/preload/runtime.h"

namespace {

using yonder::preload::Access;
using yonder::preload::call_bytes;
using yonder::preload::needs_pin;
using yonder::preload::next;
using yonder::preload::PinSet;

// These calls are the store's own.
bool heap_is_writing() { return yonder::heap::PagedSpace::is_sweeping(); }

// `call(offset, bytes)` for one piece after the other until one is short.
template <typename Call>
ssize_t in_pieces(const void* data, std::size_t bytes, Access access, Call call) {
  std::size_t done = 0;
  do {
    const auto* from = static_cast<const std::byte*>(data) + done;
    const std::size_t piece = call_bytes(from, bytes - done);
    const PinSet pin(from, piece, access);
    const ssize_t moved = call(done, piece);
    if (moved < 0) return done != 0 ? static_cast<ssize_t>(done) : moved;
    done += static_cast<std::size_t>(moved);
    if (static_cast<std::size_t>(moved) < piece) break;
  } while (done < bytes);
  return static_cast<ssize_t>(done);
}

// A vector of buffers, pinned; shorter than it was if it is too much for one call.
class PinnedVector {
 public:
  PinnedVector(const iovec* vector, int count, Access access) {
    std::size_t bytes = 0;
    const int most = std::min<int>(count, static_cast<int>(vector_.size()));
    for (count_ = 0; count_ < most; ++count_) {
      iovec piece = vector[count_];
      const std::size_t allowed = call_bytes(piece.iov_base, piece.iov_len);
      if (count_ != 0 && needs_pin(piece.iov_base) && bytes + allowed > call_bytes(piece.iov_base, SIZE_MAX))
        break;
      const bool is_cut = allowed < piece.iov_len;
      piece.iov_len = allowed;
      if (needs_pin(piece.iov_base)) bytes += allowed;
      pins_.add(piece.iov_base, piece.iov_len, access);
      vector_[static_cast<std::size_t>(count_)] = piece;
      if (is_cut) {
        ++count_;
        break;
      }
    }
  }
  iovec* data() { return vector_.data(); }
  int count() const { return count_; }
  static bool is_needed(const iovec* vector, int count) {
    return std::any_of(vector, vector + std::max(count, 0),
                       [](const iovec& piece) { return needs_pin(piece.iov_base); }) ||
           needs_pin(vector);
  }

 private:
  std::array<iovec, 16> vector_;
  int count_ = 0;
  PinSet pins_;
};

}  // namespace

YONDER_INTERPOSE ssize_t read(int fd, void* data, std::size_t bytes) {
  static const auto call = next<decltype(&::read)>("read");
  bytes = call_bytes(data, bytes);
  const PinSet pin(data, bytes, Access::kWrite);
  return call(fd, data, bytes);
}

YONDER_INTERPOSE ssize_t write(int fd, const void* data, std::size_t bytes) {
  static const auto call = next<decltype(&::write)>("write");
  return in_pieces(data, bytes, Access::kRead, [&](std::size_t at, std::size_t piece) {
    return call(fd, static_cast<const std::byte*>(data) + at, piece);
  });
}

YONDER_INTERPOSE ssize_t pread64(int fd, void* data, std::size_t bytes, off64_t offset) {
  static const auto call = next<decltype(&::pread64)>("pread64");
  return in_pieces(data, bytes, Access::kWrite, [&](std::size_t at, std::size_t piece) {
    return call(fd, static_cast<std::byte*>(data) + at, piece, offset + static_cast<off64_t>(at));
  });
}
YONDER_INTERPOSE ssize_t pread(int fd, void* data, std::size_t bytes, off_t offset) {
  return pread64(fd, data, bytes, offset);
}

YONDER_INTERPOSE ssize_t pwrite64(int fd, const void* data, std::size_t bytes, off64_t offset) {
  static const auto call = next<decltype(&::pwrite64)>("pwrite64");
  return in_pieces(data, bytes, Access::kRead, [&](std::size_t at, std::size_t piece) {
    return call(fd, static_cast<const std::byte*>(data) + at, piece, offset + static_cast<off64_t>(at));
  });
}
YONDER_INTERPOSE ssize_t pwrite(int fd, const void* data, std::size_t bytes, off_t offset) {
  return pwrite64(fd, data, bytes, offset);
}

YONDER_INTERPOSE ssize_t readv(int fd, const iovec* vector, int count) {
  static const auto call = next<decltype(&::readv)>("readv");
  if (!PinnedVector::is_needed(vector, count)) return call(fd, vector, count);
  PinnedVector pinned(vector, count, Access::kWrite);
  return call(fd, pinned.data(), pinned.count());
}

YONDER_INTERPOSE ssize_t writev(int fd, const iovec* vector, int count) {
  static const auto call = next<decltype(&::writev)>("writev");
  if (!PinnedVector::is_needed(vector, count)) return call(fd, vector, count);
  PinnedVector pinned(vector, count, Access::kRead);
  return call(fd, pinned.data(), pinned.count());
}

YONDER_INTERPOSE ssize_t recv(int fd, void* data, std::size_t bytes, int flags) {
  static const auto call = next<decltype(&::recv)>("recv");
  bytes = call_bytes(data, bytes);
  const PinSet pin(data, bytes, Access::kWrite);
  return call(fd, data, bytes, flags);
}

YONDER_INTERPOSE ssize_t send(int fd, const void* data, std::size_t bytes, int flags) {
  static const auto call = next<decltype(&::send)>("send");
  bytes = call_bytes(data, bytes);
  const PinSet pin(data, bytes, Access::kRead);
  return call(fd, data, bytes, flags);
}

YONDER_INTERPOSE ssize_t recvfrom(int fd, void* data, std::size_t bytes, int flags, sockaddr* from,
                                  socklen_t* length) {
  static const auto call = next<ssize_t (*)(int, void*, std::size_t, int, sockaddr*, socklen_t*)>("recvfrom");
  bytes = call_bytes(data, bytes);
  PinSet pins(data, bytes, Access::kWrite);
  if (length != nullptr) {
    pins.add(from, *length, Access::kWrite);
    pins.add_out(length);
  }
  return call(fd, data, bytes, flags, from, length);
}

YONDER_INTERPOSE ssize_t sendto(int fd, const void* data, std::size_t bytes, int flags, const sockaddr* to,
                                socklen_t length) {
  static const auto call =
      next<ssize_t (*)(int, const void*, std::size_t, int, const sockaddr*, socklen_t)>("sendto");
  bytes = call_bytes(data, bytes);
  PinSet pins(data, bytes, Access::kRead);
  pins.add(to, length, Access::kRead);
  return call(fd, data, bytes, flags, to, length);
}

YONDER_INTERPOSE ssize_t recvmsg(int fd, msghdr* message, int flags) {
  static const auto call = next<decltype(&::recvmsg)>("recvmsg");
  if (heap_is_writing()) return call(fd, message, flags);
  PinnedVector pinned(message->msg_iov, static_cast<int>(message->msg_iovlen), Access::kWrite);
  PinSet pins(message->msg_control, message->msg_controllen, Access::kWrite);
  pins.add(message->msg_name, message->msg_namelen, Access::kWrite);
  msghdr copy = *message;
  copy.msg_iov = pinned.data();
  copy.msg_iovlen = static_cast<std::size_t>(pinned.count());
  const ssize_t moved = call(fd, &copy, flags);
  message->msg_flags = copy.msg_flags;
  message->msg_controllen = copy.msg_controllen;
  message->msg_namelen = copy.msg_namelen;
  return moved;
}

YONDER_INTERPOSE ssize_t sendmsg(int fd, const msghdr* message, int flags) {
  static const auto call = next<decltype(&::sendmsg)>("sendmsg");
  if (heap_is_writing()) return call(fd, message, flags);
  PinnedVector pinned(message->msg_iov, static_cast<int>(message->msg_iovlen), Access::kRead);
  PinSet pins(message->msg_control, message->msg_controllen, Access::kRead);
  pins.add(message->msg_name, message->msg_namelen, Access::kRead);
  msghdr copy = *message;
  copy.msg_iov = pinned.data();
  copy.msg_iovlen = static_cast<std::size_t>(pinned.count());
  return call(fd, &copy, flags);
}

YONDER_INTERPOSE ssize_t getrandom(void* data, std::size_t bytes, unsigned flags) {
  static const auto call = next<decltype(&::getrandom)>("getrandom");
  return in_pieces(data, bytes, Access::kWrite, [&](std::size_t at, std::size_t piece) {
    return call(static_cast<std::byte*>(data) + at, piece, flags);
  });
}

// ---------------------------------------------------------------- stdio
// Long reads and writes of a FILE go straight to the caller's buffer.

namespace {

template <typename Call>
std::size_t items_in_pieces(const void* data, std::size_t size, std::size_t count, Access access, Call call) {
  if (!needs_pin(data) || size == 0) return call(data, size, count);
  const ssize_t done = in_pieces(data, size * count, access, [&](std::size_t at, std::size_t piece) {
    return static_cast<ssize_t>(call(static_cast<const std::byte*>(data) + at, 1, piece));
  });
  return static_cast<std::size_t>(std::max<ssize_t>(done, 0)) / size;
}

}  // namespace

#define YONDER_READ_ITEMS(name)                                                                    \
  YONDER_INTERPOSE std::size_t name(void* data, std::size_t size, std::size_t count, FILE* file) { \
    static const auto call = next<std::size_t (*)(void*, std::size_t, std::size_t, FILE*)>(#name); \
    return items_in_pieces(data, size, count, Access::kWrite,                                      \
                           [&](const void* at, std::size_t each, std::size_t items) {              \
                             return call(const_cast<void*>(at), each, items, file);                \
                           });                                                                     \
  }
#define YONDER_WRITE_ITEMS(name)                                                                           \
  YONDER_INTERPOSE std::size_t name(const void* data, std::size_t size, std::size_t count, FILE* file) {   \
    static const auto call = next<std::size_t (*)(const void*, std::size_t, std::size_t, FILE*)>(#name);   \
    return items_in_pieces(                                                                                \
        data, size, count, Access::kRead,                                                                  \
        [&](const void* at, std::size_t each, std::size_t items) { return call(at, each, items, file); }); \
  }

YONDER_READ_ITEMS(fread)
YONDER_READ_ITEMS(fread_unlocked)
YONDER_WRITE_ITEMS(fwrite)
YONDER_WRITE_ITEMS(fwrite_unlocked)

// The C library would hand a buffer of the program's to the kernel at any time: it takes
// one of its own, of the same size.
YONDER_INTERPOSE int setvbuf(FILE* file, char* buffer, int mode, std::size_t bytes) noexcept {
  static const auto call = next<decltype(&::setvbuf)>("setvbuf");
  return call(file, yonder::preload::is_far(buffer) ? nullptr : buffer, mode, bytes);
}
