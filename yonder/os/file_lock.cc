#include "yonder/os/file_lock.h"

#include <fcntl.h>

#include <cerrno>
#include <string>

namespace yonder::os {

Result<FileLock> FileLock::try_take(const Fd& file) {
  const std::string path = "/proc/self/fd/" + std::to_string(file.get());
  YONDER_TRY(description, Fd::open(path.c_str(), O_RDWR));
  struct flock whole{};
  whole.l_type = F_WRLCK;
  whole.l_whence = SEEK_SET;
  // Of the description, not of the process: closing another descriptor of the file
  // does not end it.
  if (::fcntl(description.get(), F_OFD_SETLK, &whole) == 0) return FileLock(std::move(description));
  if (errno == EAGAIN || errno == EACCES)
    return fail(ErrorCode::kAlreadyExists, "lock a file: it has a holder");
  return std::unexpected(Error::from_errno("fcntl(F_OFD_SETLK)"));
}

}  // namespace yonder::os
