// Reading ahead: pages that come in equal steps are asked for before they are needed.
#include <algorithm>
#include <array>
#include <cstring>

#include "yonder/heap/internal/runtime.h"

namespace yonder::heap::internal {
namespace {

constexpr std::uint32_t kFirstWindow = 4;
// A step larger than this is no stream.
constexpr std::int64_t kMaxStride = 64;
// So many equal steps make one.
constexpr std::uint32_t kStepsToBelieve = 2;

}  // namespace

// Called for a page that was missed.
void Runtime::read_ahead(ThreadState& thread, std::uint32_t page) {
  Stream& stream = thread.stream;
  const std::int64_t stride = std::int64_t{page} - std::int64_t{stream.last_page};
  const bool goes_on = stride == stream.stride && stride != 0;
  if (goes_on) {
    ++stream.run;
  } else {
    const bool is_near = stride != 0 && std::abs(stride) <= kMaxStride;
    stream = {.stride = is_near ? static_cast<std::int32_t>(stride) : 0, .run = is_near ? 1u : 0u};
  }
  stream.last_page = page;
  if (stream.run < kStepsToBelieve) return;
  stream.ahead = page;
  extend_window(thread);
}

// A page that was read ahead is used.
void Runtime::first_touch(FrameInfo& info, std::uint32_t page) {
  if (info.read_ahead.exchange(0, std::memory_order_relaxed) == 0) return;
  ThreadState& state = thread();
  state.counters.add(Count::kReadAheadUsed);
  const std::uint32_t limit = read_ahead_limit_.load(std::memory_order_relaxed);
  if (limit < kMaxWindow) read_ahead_limit_.store(limit + 1, std::memory_order_relaxed);
  Stream& stream = state.stream;
  stream.last_page = page;
  if (page == stream.trigger) extend_window(state);
}

// The next window begins where the last one ends, and is asked for when the last one is
// entered: so one is under way while one is used.
void Runtime::extend_window(ThreadState& thread) {
  Stream& stream = thread.stream;
  const std::uint32_t frames = frame_limit_.load(std::memory_order_relaxed);
  const std::uint32_t largest = std::min(read_ahead_limit_.load(std::memory_order_relaxed), frames / 8);
  stream.window = std::min(std::max(stream.window * 2, kFirstWindow), largest);
  const auto first = static_cast<std::uint32_t>(std::int64_t{stream.ahead} + stream.stride);
  const std::uint32_t asked = start_arrivals(thread, first, stream.stride, stream.window);
  stream.trigger = first;
  stream.ahead = static_cast<std::uint32_t>(std::int64_t{stream.ahead} + std::int64_t{stream.stride} * asked);
  if (asked == 0) stream.window = 0;
}

// How many pages of the window are under way or here; the first that cannot come ends it.
std::uint32_t Runtime::start_arrivals(ThreadState& thread, std::uint32_t first, std::int32_t stride,
                                      std::uint32_t count) {
  if (free_frames_.size() < count && egress_mutex_.try_lock()) {
    make_room(count);
    egress_mutex_.unlock();
  }
  std::vector<AsyncRead*> started;
  started.reserve(count);
  std::uint32_t passed = 0;
  for (; passed < count; ++passed) {
    const std::int64_t page = std::int64_t{first} + std::int64_t{stride} * passed;
    if (page <= 1 || page >= page_count_) break;
    const PageEntry now = entry(static_cast<std::uint32_t>(page));
    const bool is_here = now.state() == PageState::kLocal || now.state() == PageState::kLeaving ||
                         now.state() == PageState::kArriving;
    if (!is_here && !start_arrival(static_cast<std::uint32_t>(page), started)) break;
  }
  std::size_t posted = 0;
  while (posted < started.size()) {
    const std::size_t now = store_->start(std::span(started).subspan(posted));
    posted += now;
    if (now == 0) break;
  }
  for (std::size_t i = posted; i < started.size(); ++i)
    arrived(*static_cast<ArrivingPage*>(started[i]), fail(ErrorCode::kQueueFull, "read ahead: no room"));
  thread.counters.add(Count::kReadAhead, posted);
  thread.counters.add(Count::kBytesIn, posted * kPageBytes);
  return passed;
}

bool Runtime::start_arrival(std::uint32_t page, std::vector<AsyncRead*>& started) {
  const PageEntry before = entry(page);
  if (before.state() != PageState::kAbsent || !before.by_page()) return false;
  const auto number = free_arriving_.take();
  if (!number) return false;
  const auto frame = free_frames_.take();
  if (!frame || !swap_entry(page, before, before.as(PageState::kArriving))) {
    if (frame) free_frames_.give_back(*frame);
    free_arriving_.give_back(*number);
    return false;
  }
  ArrivingPage& arriving = arriving_[*number];
  arriving.page = page;
  arriving.frame = *frame;
  arriving.before = before;
  arriving.transfer = {.local = g_view.frame(*frame),
                       .bytes = kPageBytes,
                       .offset = std::uint64_t{before.index()} * kPageBytes};
  started.push_back(&arriving);
  return true;
}

void ArrivingPage::on_done(const Result<void>& result) { runtime->arrived(*this, result); }

void Runtime::arrived(ArrivingPage& arriving, const Result<void>& result) {
  const std::uint32_t page = arriving.page;
  const std::uint32_t frame = arriving.frame;
  const PageEntry before = arriving.before;
  free_arriving_.give_back(static_cast<std::uint32_t>(&arriving - arriving_.get()));
  if (!result) {
    // Whoever needs it will see the error for himself.
    release_frame(frame);
    set_entry(page, before);
    return;
  }
  fill_frame_info(frame, page, before.index());
  g_view.infos[frame].read_ahead.store(1, std::memory_order_relaxed);
  set_entry(page, before.arrived(frame));
}

// Asked for by name: as a window of one page, or alone. A moved object is found first.
void Runtime::prefetch(std::atomic<std::uint64_t>& at) {
  ThreadState& state = thread();
  for (int moves = 0; moves < 2; ++moves) {
    const std::uint64_t barriers = barriers_.load(std::memory_order_acquire);  // Before the entry.
    const PointerWord word{at.load(std::memory_order_acquire)};
    if (word.is_null() || word.page() <= 1) return;
    const Published published = publish(state, word.page());
    if (at.load(std::memory_order_acquire) != word.bits) return;  // H2
    const PageEntry now = entry(word.page());
    if (now.state() == PageState::kForwarded) {
      heal(at, word, now);
      continue;
    }
    if (now.state() != PageState::kAbsent) return;
    if (!now.by_page()) return ask_for_object(state, word, {now, barriers});
    start_arrivals(state, word.page(), 1, 1);
    return;
  }
}

void Runtime::ask_for_object(ThreadState& thread, PointerWord word, AbsentStay now) {
  EarlyObject* const early = thread.early.expect(word, now);
  if (early == nullptr) return;
  std::array<AsyncRead*, 1> reads = {early};
  if (store_->start(reads) == 0) return early->forget();  // It is asked for again when it is missed.
  thread.counters.add(Count::kObjectsAhead);
  thread.counters.add(Count::kBytesIn, word.bytes());
}

// Whether the object had been asked for. Waits for it if it is on its way, not longer than a read of our
// own would take.
bool Runtime::take_early(ThreadState& thread, PointerWord word, AbsentStay now, std::byte* to) {
  EarlyObject* const early = thread.early.find(word, now);
  if (early == nullptr) return false;
  while (early->is_coming()) store_->poll();
  if (!early->is_here()) return false;  // The read failed: ours will tell why.
  std::memcpy(to, early->bytes(), word.bytes());
  early->forget();
  thread.counters.add(Count::kObjectsAheadUsed);
  return true;
}

}  // namespace yonder::heap::internal
