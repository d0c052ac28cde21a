#include "yonder/os/membarrier.h"

#include <linux/membarrier.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "yonder/base/check.h"

namespace yonder::os {
namespace {

struct Commands {
  int issue;
  int enrol;
};

Commands commands_of(Membarrier::Scope scope) {
  if (scope == Membarrier::Scope::kPrivate)
    return {MEMBARRIER_CMD_PRIVATE_EXPEDITED, MEMBARRIER_CMD_REGISTER_PRIVATE_EXPEDITED};
  return {MEMBARRIER_CMD_GLOBAL_EXPEDITED, MEMBARRIER_CMD_REGISTER_GLOBAL_EXPEDITED};
}

long membarrier(int command) { return ::syscall(SYS_membarrier, command, 0, 0); }

}  // namespace

bool Membarrier::available(Scope scope) {
  const long supported = membarrier(MEMBARRIER_CMD_QUERY);
  const Commands commands = commands_of(scope);
  const long needed = commands.issue | commands.enrol;
  return supported >= 0 && (supported & needed) == needed;
}

Result<Membarrier> Membarrier::create(Scope scope) {
  if (!available(scope)) return fail(ErrorCode::kUnsupported, "membarrier");
  const Commands commands = commands_of(scope);
  if (membarrier(commands.enrol) != 0) return fail_errno("membarrier(REGISTER)");
  return Membarrier(commands.issue);
}

void Membarrier::issue() const {
  // A registered process gets ENOMEM at most, and expedited commands retry that
  // inside the kernel; going on without the barrier would be memory corruption.
  YONDER_CHECK(membarrier(command_) == 0, "a registered membarrier cannot fail");
}

}  // namespace yonder::os
