#include "yonder/os/userfaultfd.h"

#include <fcntl.h>
#include <linux/userfaultfd.h>
#include <sys/ioctl.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cerrno>

#include "yonder/os/wait.h"

namespace yonder::os {
namespace {

static_assert(kUffdMissing == UFFDIO_REGISTER_MODE_MISSING && kUffdProtected == UFFDIO_REGISTER_MODE_WP);
static_assert(kUffdSigbus == UFFD_FEATURE_SIGBUS && kUffdThreadId == UFFD_FEATURE_THREAD_ID);
static_assert(kUffdMissingShmem == UFFD_FEATURE_MISSING_SHMEM &&
              kUffdMissingHuge == UFFD_FEATURE_MISSING_HUGETLBFS);
static_assert(kUffdMinor == UFFDIO_REGISTER_MODE_MINOR && kUffdMinorShmem == UFFD_FEATURE_MINOR_SHMEM);
static_assert(kUffdExactAddress == UFFD_FEATURE_EXACT_ADDRESS);
static_assert(kUffdWriteProtect == UFFD_FEATURE_PAGEFAULT_FLAG_WP);
static_assert(kUffdWriteProtectShmem == UFFD_FEATURE_WP_HUGETLBFS_SHMEM);

// Features that mix other events into the stream of faults.
constexpr std::uint64_t kEventFeatures =
    UFFD_FEATURE_EVENT_FORK | UFFD_FEATURE_EVENT_REMAP | UFFD_FEATURE_EVENT_REMOVE | UFFD_FEATURE_EVENT_UNMAP;

int open_raw(int flags) {
  return static_cast<int>(::syscall(SYS_userfaultfd, O_CLOEXEC | O_NONBLOCK | flags));
}

uffdio_range range_of(std::span<std::byte> range) {
  return {.start = reinterpret_cast<std::uintptr_t>(range.data()), .len = range.size()};
}

Error ioctl_error(const char* call) {
  switch (errno) {
    case EINVAL:
      return {ErrorCode::kInvalidArgument, call, EINVAL};
    case EBUSY:
    case EEXIST:
      return {ErrorCode::kAlreadyExists, call, errno};
    // The range was unmapped or unregistered, or its process is ending.
    case ENOENT:
    case ESRCH:
      return {ErrorCode::kNotFound, call, errno};
    default:
      return Error::from_errno(call);
  }
}

// UFFDIO_COPY and UFFDIO_ZEROPAGE stop with EAGAIN when the address space is
// being changed under them, and say how far they came: go on from there.
// `attempt(done)` returns the ioctl's result and sets `moved`.
template <typename Attempt>
Result<void> repeat_partial(std::size_t total, const char* call, Attempt attempt) {
  std::size_t done = 0;
  while (done < total) {
    std::int64_t moved = 0;
    if (attempt(done, moved) == 0) return {};
    if (errno != EAGAIN) return std::unexpected(ioctl_error(call));
    if (moved > 0) done += static_cast<std::size_t>(moved);
  }
  return {};
}

}  // namespace

Result<Userfaultfd> Userfaultfd::open_bare() {
  Fd fd(open_raw(0));
  if (fd.valid()) return Userfaultfd(std::move(fd), false);
  if (errno == EPERM) {
    fd.reset(open_raw(UFFD_USER_MODE_ONLY));
    if (fd.valid()) return Userfaultfd(std::move(fd), true);
  }
  return fail_errno("userfaultfd");
}

Result<std::uint64_t> Userfaultfd::probe() {
  YONDER_TRY(uffd, open_bare());
  uffdio_api api{.api = UFFD_API, .features = 0, .ioctls = 0};
  if (::ioctl(uffd.fd_.get(), UFFDIO_API, &api) != 0) return fail_errno("ioctl(UFFDIO_API)");
  return api.features;
}

Result<Userfaultfd> Userfaultfd::open(const Options& options) {
  if ((options.features & kEventFeatures) != 0)
    return fail(ErrorCode::kInvalidArgument, "userfaultfd event features");
  YONDER_TRY(uffd, open_bare());
  uffdio_api api{.api = UFFD_API, .features = options.features, .ioctls = 0};
  if (::ioctl(uffd.fd_.get(), UFFDIO_API, &api) != 0) {
    if (errno == EINVAL) return fail(ErrorCode::kUnsupported, "userfaultfd features", EINVAL);
    return fail_errno("ioctl(UFFDIO_API)");
  }
  return uffd;
}

Result<void> Userfaultfd::register_range(std::span<std::byte> range, std::uint64_t modes) const {
  uffdio_register request{.range = range_of(range), .mode = modes, .ioctls = 0};
  if (::ioctl(fd_.get(), UFFDIO_REGISTER, &request) != 0)
    return std::unexpected(ioctl_error("ioctl(UFFDIO_REGISTER)"));
  return {};
}

Result<void> Userfaultfd::unregister_range(std::span<std::byte> range) const {
  uffdio_range request = range_of(range);
  if (::ioctl(fd_.get(), UFFDIO_UNREGISTER, &request) != 0)
    return std::unexpected(ioctl_error("ioctl(UFFDIO_UNREGISTER)"));
  return {};
}

Result<void> Userfaultfd::copy(const CopyOptions& options) const {
  const std::uint64_t mode =
      (options.wake ? 0 : UFFDIO_COPY_MODE_DONTWAKE) | (options.write_protect ? UFFDIO_COPY_MODE_WP : 0);
  return repeat_partial(
      options.destination.size(), "ioctl(UFFDIO_COPY)", [&](std::size_t done, std::int64_t& moved) {
        uffdio_copy request{.dst = reinterpret_cast<std::uintptr_t>(options.destination.data()) + done,
                            .src = reinterpret_cast<std::uintptr_t>(options.source) + done,
                            .len = options.destination.size() - done,
                            .mode = mode,
                            .copy = 0};
        const int result = ::ioctl(fd_.get(), UFFDIO_COPY, &request);
        moved = request.copy;
        return result;
      });
}

Result<void> Userfaultfd::zero(std::span<std::byte> range, bool wake) const {
  return repeat_partial(range.size(), "ioctl(UFFDIO_ZEROPAGE)", [&](std::size_t done, std::int64_t& moved) {
    uffdio_zeropage request{.range = range_of(range.subspan(done)),
                            .mode = wake ? 0 : UFFDIO_ZEROPAGE_MODE_DONTWAKE,
                            .zeropage = 0};
    const int result = ::ioctl(fd_.get(), UFFDIO_ZEROPAGE, &request);
    moved = request.zeropage;
    return result;
  });
}

Result<void> Userfaultfd::admit(std::span<std::byte> range) const {
  return repeat_partial(range.size(), "ioctl(UFFDIO_CONTINUE)", [&](std::size_t done, std::int64_t& moved) {
    uffdio_continue request{.range = range_of(range.subspan(done)), .mode = 0, .mapped = 0};
    const int result = ::ioctl(fd_.get(), UFFDIO_CONTINUE, &request);
    moved = request.mapped;
    return result;
  });
}

Result<void> Userfaultfd::wake(std::span<std::byte> range) const {
  uffdio_range request = range_of(range);
  if (::ioctl(fd_.get(), UFFDIO_WAKE, &request) != 0)
    return std::unexpected(ioctl_error("ioctl(UFFDIO_WAKE)"));
  return {};
}

Result<void> Userfaultfd::write_protect(std::span<std::byte> range, bool on) const {
  uffdio_writeprotect request{.range = range_of(range), .mode = on ? UFFDIO_WRITEPROTECT_MODE_WP : 0};
  // EAGAIN: the address space is being changed; the call has no partial result.
  while (::ioctl(fd_.get(), UFFDIO_WRITEPROTECT, &request) != 0) {
    if (errno != EAGAIN) return std::unexpected(ioctl_error("ioctl(UFFDIO_WRITEPROTECT)"));
  }
  return {};
}

Result<std::optional<Fault>> Userfaultfd::try_next_fault() const {
  uffd_msg message{};
  const ssize_t count = ::read(fd_.get(), &message, sizeof message);
  if (count < 0 && (errno == EAGAIN || errno == EINTR)) return std::nullopt;
  if (count != sizeof message) return fail_errno("read(userfaultfd)");
  if (message.event != UFFD_EVENT_PAGEFAULT)
    return fail(ErrorCode::kOsError, "userfaultfd event", message.event);
  const auto& fault = message.arg.pagefault;
  return Fault{.address = static_cast<std::uintptr_t>(fault.address),
               .write = (fault.flags & UFFD_PAGEFAULT_FLAG_WRITE) != 0,
               .protection = (fault.flags & UFFD_PAGEFAULT_FLAG_WP) != 0,
               .thread_id = fault.feat.ptid};
}

Result<Fault> Userfaultfd::wait_fault(Deadline deadline) const {
  deadline = fix_deadline(deadline);
  for (;;) {
    YONDER_TRY(fault, try_next_fault());
    if (fault) return *fault;
    YONDER_TRY_VOID(wait_ready(fd_.get(), Ready::kReadable, deadline));
  }
}

}  // namespace yonder::os
