#include "apps/preload/refusals.h"

#include <linux/audit.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstddef>
#include <cstdint>

namespace yonder::preload {
namespace {

#if defined(__x86_64__)
constexpr std::uint32_t kArchitecture = AUDIT_ARCH_X86_64;
#elif defined(__aarch64__)
constexpr std::uint32_t kArchitecture = AUDIT_ARCH_AARCH64;
#endif

// A program that was started by one with far memory has the filter already; each more would
// cost every system call of every child a little more.
bool is_refused_already() {
  // Nothing of this can succeed.
  return ::syscall(SYS_io_uring_setup, 0, nullptr) == -1 && errno == ENOSYS &&
         ::syscall(SYS_io_setup, 0, nullptr) == -1 && errno == ENOSYS;
}

long install(const sock_fprog& program) {
  return ::syscall(SYS_seccomp, SECCOMP_SET_MODE_FILTER, 0, &program);
}

}  // namespace

Result<void> refuse_asynchronous_calls() {
  if (is_refused_already()) return {};
  // By numbers alone: the kernel then knows beforehand what it allows, and asks no more.
  std::array<sock_filter, 7> code = {{
      BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(seccomp_data, arch)),
      BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, kArchitecture, 0, 4),  // Another: allowed.
      BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(seccomp_data, nr)),
      BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_io_uring_setup, 1, 0),
      BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_io_setup, 0, 1),
      BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | ENOSYS),
      BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
  }};
  const sock_fprog program{.len = static_cast<unsigned short>(code.size()), .filter = code.data()};
  if (install(program) == 0) return {};
  if (errno != EACCES) return fail_errno("refuse io_uring");
  if (::prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) != 0) return fail_errno("prctl(no new privileges)");
  if (install(program) != 0) return fail_errno("refuse io_uring");
  return {};
}

}  // namespace yonder::preload
