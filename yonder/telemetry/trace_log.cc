#include "yonder/telemetry/trace_log.h"

#include <algorithm>
#include <cerrno>
#include <limits>

#include "yonder/base/check.h"
#include "yonder/telemetry/internal/line_writer.h"

namespace yonder::telemetry {

TraceLog::TraceLog(const Clock& clock, const TraceLogOptions& options)
    : clock_(clock), options_(options), slots_(std::make_unique<Slot[]>(options.max_threads)) {
  YONDER_CHECK(std::has_single_bit(options.events_per_thread), "events_per_thread is a power of two");
}

TraceLog::~TraceLog() {
  for (Slot& slot : slots()) {
    YONDER_CHECK(!slot.owned.load(std::memory_order_acquire), "trace writers go before their log");
    delete slot.ring.load(std::memory_order_relaxed);
  }
}

void TraceLog::set_name(Slot& slot, std::string_view name) {
  // Relaxed: a dump at this very moment shows a mixed name, and is none the worse for it.
  for (std::size_t i = 0; i < kThreadNameBytes; ++i)
    slot.name[i].store(i < name.size() && i + 1 < kThreadNameBytes ? name[i] : '\0',
                       std::memory_order_relaxed);
}

std::array<char, TraceLog::kThreadNameBytes> TraceLog::name_of(const Slot& slot) {
  std::array<char, kThreadNameBytes> name{};
  for (std::size_t i = 0; i + 1 < kThreadNameBytes; ++i)
    name[i] = slot.name[i].load(std::memory_order_relaxed);
  return name;
}

Result<TraceWriter> TraceLog::register_thread(std::string_view name) {
  for (Slot& slot : slots()) {
    // acquire: pairs with the release in ~TraceWriter; the ring is ours to write.
    if (slot.owned.exchange(true, std::memory_order_acquire)) continue;
    set_name(slot, name);
    TraceRing* ring = slot.ring.load(std::memory_order_relaxed);
    if (ring == nullptr) {
      ring = new TraceRing(options_.events_per_thread);
      slot.ring.store(ring, std::memory_order_release);  // Pairs with the loads in collect() and dump().
    }
    return TraceWriter(&clock_, &slot, ring);
  }
  return fail(ErrorCode::kResourceExhausted, "trace rings", static_cast<std::int64_t>(options_.max_threads));
}

TraceWriter::~TraceWriter() {
  if (slot_ != nullptr)
    slot_->owned.store(false, std::memory_order_release);  // Pairs with register_thread().
}

std::vector<TraceLog::NamedEvent> TraceLog::collect() const {
  std::vector<NamedEvent> events;
  for (const Slot& slot : slots()) {
    const TraceRing* const ring = slot.ring.load(std::memory_order_acquire);
    if (ring == nullptr) continue;
    const auto name = name_of(slot);
    ring->for_each([&](const TraceEvent& event) { events.push_back({.thread = name, .event = event}); });
  }
  std::ranges::sort(events, {}, [](const NamedEvent& each) { return each.event.time; });
  return events;
}

void TraceLog::dump(int fd) const {
  const int saved_errno = errno;
  for (const Slot& slot : slots()) {
    const TraceRing* const ring = slot.ring.load(std::memory_order_acquire);
    if (ring != nullptr) dump_ring(fd, slot, *ring);
  }
  errno = saved_errno;
}

void TraceLog::dump_ring(int fd, const Slot& slot, const TraceRing& ring) const {
  const auto name = name_of(slot);
  const Instant now = clock_.now();
  internal::LineWriter line;
  ring.for_each([&](const TraceEvent& event) {
    line.text(name.data())
        .text(" #")
        .number(event.position)
        .text(" ")
        .seconds((event.time - now).count())
        .text(" ");
    if (event.id < options_.names.size())
      line.text(options_.names[event.id]);
    else
      line.text("event ").number(event.id);
    line.text(" a=").number(event.a).text(" b=").number(event.b).flush(fd);
  });
}

namespace {

// What the check hook dumps: it is called without an argument.
std::atomic<const TraceLog*> g_log{nullptr};
std::atomic<int> g_fd{-1};
std::atomic<CheckHook> g_previous{nullptr};

void dump_on_failure() {
  if (const CheckHook previous = g_previous.load()) previous();
  if (const TraceLog* const log = g_log.load()) log->dump(g_fd.load());
}

}  // namespace

TraceDumpOnFailure::TraceDumpOnFailure(const TraceLog& log, int fd) {
  g_fd = fd;
  const TraceLog* none = nullptr;
  YONDER_CHECK(g_log.compare_exchange_strong(none, &log), "one trace log is dumped on failure");
  g_previous = set_check_hook(&dump_on_failure);
}

TraceDumpOnFailure::~TraceDumpOnFailure() {
  set_check_hook(g_previous.load());
  g_log = nullptr;
}

}  // namespace yonder::telemetry
