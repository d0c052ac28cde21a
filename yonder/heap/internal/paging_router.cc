#include "yonder/heap/internal/paging_router.h"

#include <ucontext.h>

#include <array>
#include <atomic>
#include <csignal>
#include <mutex>
#include <optional>
#include <thread>

#include "yonder/os/signal.h"

namespace yonder::heap::internal {
namespace {

struct Entry {
  std::atomic<std::uintptr_t> begin{0};
  std::atomic<std::uintptr_t> end{0};
  std::atomic<PagingServer*> server{nullptr};
  std::atomic<std::uint32_t> inside{0};
};

// A signal handler has no other way to find its state than a global.
std::array<Entry, PagingRouter::kSpaces> entries;

// Who adds and removes; never taken by the handler.
std::mutex& change_lock() {
  static std::mutex lock;
  return lock;
}
std::optional<os::SignalHook>& hook() {
  static std::optional<os::SignalHook> installed;
  return installed;
}

// Whether the access was a write. Where we do not know the processor's word for it every
// fault counts as one: each page that comes is then dirty, which costs writes only.
bool was_write([[maybe_unused]] const void* context) {
#if defined(__x86_64__)
  constexpr greg_t kWriteBit = 2;  // Of the page-fault error code.
  return (static_cast<const ucontext_t*>(context)->uc_mcontext.gregs[REG_ERR] & kWriteBit) != 0;
#else
  return true;
#endif
}

bool on_bus(int, siginfo_t* info, void* context) noexcept {
  const auto address = reinterpret_cast<std::uintptr_t>(info->si_addr);
  for (Entry& entry : entries) {
    // relaxed: an address of a space is faulted on only after the space was added.
    if (address < entry.begin.load(std::memory_order_relaxed) ||
        address >= entry.end.load(std::memory_order_relaxed)) {
      continue;
    }
    entry.inside.fetch_add(1, std::memory_order_seq_cst);  // See the header's argument.
    PagingServer* server = entry.server.load(std::memory_order_seq_cst);
    const bool served = server != nullptr && server->serve_fault(address, was_write(context));
    entry.inside.fetch_sub(1, std::memory_order_release);
    return served;
  }
  return false;
}

bool is_any_used() {
  for (const Entry& entry : entries) {
    if (entry.server.load(std::memory_order_relaxed) != nullptr) return true;
  }
  return false;
}

}  // namespace

Result<void> PagingRouter::add(std::span<std::byte> range, PagingServer& server) {
  const std::scoped_lock guard(change_lock());
  if (!hook()) {
    YONDER_TRY(made, os::SignalHook::install(SIGBUS, &on_bus, {.block_others = true}));
    hook().emplace(std::move(made));
  }
  for (Entry& entry : entries) {
    if (entry.server.load(std::memory_order_relaxed) != nullptr) continue;
    const auto begin = reinterpret_cast<std::uintptr_t>(range.data());
    entry.begin.store(begin, std::memory_order_relaxed);
    entry.end.store(begin + range.size(), std::memory_order_relaxed);
    entry.server.store(&server, std::memory_order_seq_cst);
    return {};
  }
  return fail(ErrorCode::kResourceExhausted, "paged spaces of one process", kSpaces);
}

void PagingRouter::remove(PagingServer& server) {
  const std::scoped_lock guard(change_lock());
  for (Entry& entry : entries) {
    if (entry.server.load(std::memory_order_relaxed) != &server) continue;
    entry.server.store(nullptr, std::memory_order_seq_cst);
    entry.end.store(0, std::memory_order_relaxed);
    // Bounded by the patience of the fault that is being served.
    while (entry.inside.load(std::memory_order_seq_cst) != 0) std::this_thread::yield();
  }
  if (!is_any_used()) hook().reset();
}

}  // namespace yonder::heap::internal
