#pragma once
// FileLock: at most one holder of a file among all processes.
//
// The lock belongs to a description of the file that nobody else has: it is opened
// anew here. So it ends with this object or with the process, however that ends, and
// neither a child nor a process that was sent a descriptor of the same file keeps it.
//
// Concurrency: as a value. Lifetime: the file need not outlive it.

#include "yonder/base/result.h"
#include "yonder/os/fd.h"

namespace yonder::os {

class FileLock {
 public:
  // kAlreadyExists: somebody holds it; kNotFound (no /proc), kPermissionDenied,
  // kResourceExhausted.
  static Result<FileLock> try_take(const Fd& file);

 private:
  explicit FileLock(Fd description) : description_(std::move(description)) {}
  Fd description_;
};

}  // namespace yonder::os
