#include "yonder/segment/internal/fault_router.h"

#include <unistd.h>

#include <array>
#include <atomic>
#include <cerrno>
#include <csignal>
#include <cstdio>
#include <memory>
#include <optional>
#include <thread>

#include "yonder/base/check.h"
#include "yonder/os/signal.h"
#include "yonder/segment/recovery.h"

namespace yonder::segment::internal {

namespace {

struct Notice {
  std::atomic<std::uint64_t> segment{0};  // 0: none. Written last, read first.
  std::atomic<std::uint64_t> owner{0};
  std::atomic<std::uint64_t> epoch{0};
};

struct Entry {
  std::atomic<FaultServer*> server{nullptr};
  std::atomic<std::uint32_t> inside{0};
  Notice notice;
};

struct Table {
  std::uintptr_t base;
  std::uint32_t slots;
  std::unique_ptr<Entry[]> entries;
  std::optional<os::SignalHook> bus;
  std::optional<os::SignalHook> segv;

  Entry* find(std::uintptr_t address) const {
    if (address < base || (address - base) / kSlotBytes >= slots) return nullptr;
    return &entries[(address - base) / kSlotBytes];
  }
};

// A signal handler has no other way to find its state than a global.
std::atomic<Table*> open_table{nullptr};

Table& table() {
  Table* table = open_table.load(std::memory_order_acquire);
  YONDER_CHECK(table != nullptr, "faults are routed while there is an arena");
  return *table;
}

template <typename Do>
void for_each_slot(SlotRange range, Do act) {
  Table& all = table();
  YONDER_CHECK(range.first < all.slots && range.count <= all.slots - range.first, "slots of the arena");
  for (std::uint32_t i = 0; i < range.count; ++i) act(all.entries[range.first + i]);
}

// Only async-signal-safe calls: the interrupted thread may be anywhere.
void write_text(const char* text, std::size_t length) {
  [[maybe_unused]] const ssize_t written = ::write(STDERR_FILENO, text, length);
}

void write_line(const char* format, std::uintptr_t address) {
  std::array<char, 256> text;
  const int length = std::snprintf(text.data(), text.size(), format, static_cast<unsigned long>(address));
  if (length > 0) write_text(text.data(), static_cast<std::size_t>(length));
}

// Leaves the handler for the recovery point. SIGBUS is blocked while it is handled.
[[noreturn]] void recover(RecoveryPoint& point) {
  sigset_t signals;
  sigemptyset(&signals);
  sigaddset(&signals, SIGBUS);
  pthread_sigmask(SIG_UNBLOCK, &signals, nullptr);
  siglongjmp(point.place, 1);
}

// A segment may become ordinary memory between a fault and its handler: then nobody
// serves it any more, and the access simply works when it is repeated. A few repetitions
// tell such a fault from one that is real.
bool is_worth_repeating(std::uintptr_t address) {
  constexpr int kRepetitions = 3;
  thread_local std::uintptr_t last = 0;
  thread_local int count = 0;
  count = address == last ? count + 1 : 0;
  last = address;
  if (count < kRepetitions) return true;
  last = 0;
  return false;
}

bool on_bus(int, siginfo_t* info, void*) noexcept {
  Table* all = open_table.load(std::memory_order_acquire);
  const auto address = reinterpret_cast<std::uintptr_t>(info->si_addr);
  Entry* entry = all == nullptr ? nullptr : all->find(address);
  if (entry == nullptr) return false;
  const int saved_errno = errno;
  entry->inside.fetch_add(1, std::memory_order_seq_cst);  // See the header's argument.
  FaultServer* server = entry->server.load(std::memory_order_seq_cst);
  const FaultAnswer answer = server == nullptr ? FaultAnswer::kNotOurs : server->serve_fault(address);
  entry->inside.fetch_sub(1, std::memory_order_release);
  errno = saved_errno;
  if (answer == FaultAnswer::kLost) {
    if (RecoveryPoint* point = current_recovery(); point != nullptr) recover(*point);
    write_line("yonder: the page of 0x%lx did not arrive: the process it was to come from does not answer\n",
               address);
  } else if (answer == FaultAnswer::kNotPulled) {
    write_line(
        "yonder: access to 0x%lx, which was not pulled: receive with pull_on_touch, or pull it first\n",
        address);
  }
  return answer == FaultAnswer::kServed || (answer == FaultAnswer::kNotOurs && is_worth_repeating(address));
}

bool on_segv(int, siginfo_t* info, void*) noexcept {
  Table* all = open_table.load(std::memory_order_acquire);
  const auto address = reinterpret_cast<std::uintptr_t>(info->si_addr);
  const Entry* entry = all == nullptr ? nullptr : all->find(address);
  if (entry == nullptr) return false;
  const std::uint64_t segment = entry->notice.segment.load(std::memory_order_acquire);
  if (segment == 0) return false;
  std::array<char, 256> text;
  const int length =
      std::snprintf(text.data(), text.size(),
                    "yonder: access to 0x%lx in segment %lu, which this process does not own: it was "
                    "transferred to process "
                    "%lu (epoch %lu)\n",
                    static_cast<unsigned long>(address), static_cast<unsigned long>(segment),
                    static_cast<unsigned long>(entry->notice.owner.load(std::memory_order_relaxed)),
                    static_cast<unsigned long>(entry->notice.epoch.load(std::memory_order_relaxed)));
  if (length > 0) write_text(text.data(), static_cast<std::size_t>(length));
  return false;
}

}  // namespace

RecoveryPoint*& current_recovery() {
  thread_local RecoveryPoint* current = nullptr;
  return current;
}

Result<void> FaultRouter::open(std::uintptr_t base, std::uint32_t slots) {
  auto made = std::make_unique<Table>(Table{.base = base,
                                            .slots = slots,
                                            .entries = std::make_unique<Entry[]>(slots),
                                            .bus = std::nullopt,
                                            .segv = std::nullopt});
  Table* expected = nullptr;
  // release: a handler that finds the table finds it complete.
  if (!open_table.compare_exchange_strong(expected, made.get(), std::memory_order_acq_rel))
    return fail(ErrorCode::kAlreadyExists, "reserve the arena: this process has one");
  Result<os::SignalHook> bus = os::SignalHook::install(SIGBUS, &on_bus);
  Result<os::SignalHook> segv = os::SignalHook::install(SIGSEGV, &on_segv);
  if (!bus || !segv) {
    open_table.store(nullptr, std::memory_order_release);
    return std::unexpected(bus ? segv.error() : bus.error());
  }
  made->bus.emplace(std::move(*bus));
  made->segv.emplace(std::move(*segv));
  made.release();  // Owned by the global until close().
  return {};
}

void FaultRouter::close() {
  const std::unique_ptr<Table> table(open_table.load(std::memory_order_acquire));
  if (table == nullptr) return;
  table->bus.reset();
  table->segv.reset();
  open_table.store(nullptr, std::memory_order_release);
}

void FaultRouter::set_server(SlotRange range, FaultServer& server) {
  for_each_slot(range, [&](Entry& entry) {
    FaultServer* before = entry.server.exchange(&server, std::memory_order_seq_cst);
    YONDER_CHECK(before == nullptr, "one server per slot");
  });
}

void FaultRouter::remove_server(SlotRange range) {
  for_each_slot(range, [](Entry& entry) { entry.server.store(nullptr, std::memory_order_seq_cst); });
  for_each_slot(range, [](Entry& entry) {
    // Bounded by the deadline of the fault that is being served.
    while (entry.inside.load(std::memory_order_seq_cst) != 0) std::this_thread::yield();
  });
}

void FaultRouter::warm(SlotRange range) {
  for_each_slot(range, [](Entry& entry) { (void)entry.inside.fetch_add(0, std::memory_order_relaxed); });
}

void FaultRouter::set_notice(SlotRange range, SegmentId segment, ProcessId owner, Epoch epoch) {
  for_each_slot(range, [&](Entry& entry) {
    // relaxed: only a message; the segment's store publishes them.
    entry.notice.owner.store(owner.value(), std::memory_order_relaxed);
    entry.notice.epoch.store(epoch.value(), std::memory_order_relaxed);
    entry.notice.segment.store(segment.value(), std::memory_order_release);
  });
}

void FaultRouter::remove_notice(SlotRange range) {
  for_each_slot(range, [](Entry& entry) { entry.notice.segment.store(0, std::memory_order_release); });
}

}  // namespace yonder::segment::internal
