#include "yonder/offload/confinement.h"

#include <linux/audit.h>
#include <linux/capability.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <array>
#include <cstddef>
#include <cstdio>
#include <memory>
#include <vector>

namespace yonder::offload {
namespace {

#if defined(__x86_64__)
constexpr std::uint32_t kArchitecture = AUDIT_ARCH_X86_64;
#elif defined(__aarch64__)
constexpr std::uint32_t kArchitecture = AUDIT_ARCH_AARCH64;
#else
#error "offload: which architecture's system calls are these?"
#endif

Result<void> limit(__rlimit_resource_t resource, std::uint64_t value) {
  const rlimit both{.rlim_cur = value, .rlim_max = value};
  if (::setrlimit(resource, &both) != 0) return fail_errno("setrlimit");
  return {};
}

Result<std::uint64_t> mapped_bytes() {
  const std::unique_ptr<std::FILE, int (*)(std::FILE*)> file(std::fopen("/proc/self/statm", "r"),
                                                             &std::fclose);
  unsigned long pages = 0;
  if (file == nullptr || std::fscanf(file.get(), "%lu", &pages) != 1) return fail_errno("/proc/self/statm");
  return std::uint64_t{pages} * static_cast<std::uint64_t>(::sysconf(_SC_PAGESIZE));
}

// Builds a filter: rules in order, then the verdict over the rest.
class Filter {
 public:
  Filter() {
    load(offsetof(seccomp_data, arch));
    // Another architecture's numbers mean other calls.
    code_.push_back(BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, kArchitecture, 1, 0));
    code_.push_back(BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_KILL_PROCESS));
    load(offsetof(seccomp_data, nr));
  }

  void allow(long call) {
    code_.push_back(BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, static_cast<std::uint32_t>(call), 0, 1));
    code_.push_back(BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW));
  }
  // If the argument is `value`. Arguments are compared by their lower half, which is all
  // that the kernel looks at in those that are used here (ints).
  void allow_if_equal(long call, unsigned argument, std::uint32_t value) {
    allow_if(call, argument, BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, value, 0, 1));
  }
  // If none of `bits` is set in the argument.
  void allow_without(long call, unsigned argument, std::uint32_t bits) {
    allow_if(call, argument, BPF_JUMP(BPF_JMP | BPF_JSET | BPF_K, bits, 1, 0));
  }
  // Memory of nobody else: anonymous, and not to be executed.
  void allow_anonymous_mmap() {
    skip_unless(SYS_mmap, 6);
    load_argument(2);
    code_.push_back(BPF_JUMP(BPF_JMP | BPF_JSET | BPF_K, PROT_EXEC, 3, 0));
    load_argument(3);
    code_.push_back(BPF_JUMP(BPF_JMP | BPF_JSET | BPF_K, MAP_ANONYMOUS, 0, 1));
    code_.push_back(BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW));
    load(offsetof(seccomp_data, nr));
  }

  Result<void> install() {
    // A signal, so that the worker can say which call it was.
    code_.push_back(BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_TRAP));
    const sock_fprog program{.len = static_cast<unsigned short>(code_.size()), .filter = code_.data()};
    if (::syscall(SYS_seccomp, SECCOMP_SET_MODE_FILTER, 0, &program) != 0) return fail_errno("seccomp");
    return {};
  }

 private:
  void load(std::size_t offset) {
    code_.push_back(BPF_STMT(BPF_LD | BPF_W | BPF_ABS, static_cast<std::uint32_t>(offset)));
  }
  void load_argument(unsigned argument) { load(offsetof(seccomp_data, args) + argument * 8); }
  // `test` skips one statement if the argument is not as it should be.
  void allow_if(long call, unsigned argument, sock_filter test) {
    skip_unless(call, 4);
    load_argument(argument);
    code_.push_back(test);
    code_.push_back(BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW));
    load(offsetof(seccomp_data, nr));
  }
  void skip_unless(long call, std::uint8_t statements) {
    code_.push_back(BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, static_cast<std::uint32_t>(call), 0, statements));
  }

  std::vector<sock_filter> code_;
};

}  // namespace

Result<void> drop_rights() {
  if (::prctl(PR_SET_PDEATHSIG, SIGKILL) != 0) return fail_errno("prctl(PR_SET_PDEATHSIG)");
  if (::prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) != 0) return fail_errno("prctl(PR_SET_NO_NEW_PRIVS)");
  __user_cap_header_struct header{.version = _LINUX_CAPABILITY_VERSION_3, .pid = 0};
  std::array<__user_cap_data_struct, _LINUX_CAPABILITY_U32S_3> none{};
  if (::syscall(SYS_capset, &header, none.data()) != 0) return fail_errno("capset");
  if (::prctl(PR_SET_DUMPABLE, 0) != 0) return fail_errno("prctl(PR_SET_DUMPABLE)");
  return limit(RLIMIT_CORE, 0);
}

Result<void> limit_memory(std::uint64_t bytes) {
  YONDER_TRY(mapped, mapped_bytes());
  YONDER_TRY_VOID(limit(RLIMIT_AS, mapped + bytes));
  YONDER_TRY_VOID(limit(RLIMIT_NOFILE, 0));
  YONDER_TRY_VOID(limit(RLIMIT_FSIZE, 0));
  return limit(RLIMIT_NPROC, 0);
}

Result<void> forbid_calls(OpenFiles files) {
  Filter filter;
  filter.allow_if_equal(SYS_read, 0, static_cast<std::uint32_t>(files.channel));
  filter.allow_if_equal(SYS_write, 0, static_cast<std::uint32_t>(files.channel));
  filter.allow_if_equal(SYS_write, 0, static_cast<std::uint32_t>(files.notes));
  filter.allow_anonymous_mmap();
  filter.allow_without(SYS_mprotect, 2, PROT_EXEC);
  for (const long call : {SYS_munmap, SYS_mremap, SYS_brk, SYS_madvise, SYS_futex, SYS_clock_gettime,
                          SYS_gettimeofday, SYS_getrandom, SYS_sched_yield, SYS_rt_sigreturn,
                          SYS_rt_sigprocmask, SYS_getpid, SYS_gettid, SYS_exit, SYS_exit_group}) {
    filter.allow(call);
  }
  // abort() signals itself, and nobody else.
  filter.allow_if_equal(SYS_tgkill, 0, static_cast<std::uint32_t>(::getpid()));
  return filter.install();
}

}  // namespace yonder::offload
