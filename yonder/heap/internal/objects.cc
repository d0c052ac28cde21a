// Where objects are placed, and what becomes of the place when they are gone.
#include "yonder/base/check.h"
#include "yonder/heap/internal/runtime.h"
#include "yonder/sync/spin.h"

namespace yonder::heap::internal {
namespace {

constexpr std::uint32_t kFreedAtOnce = 32;

}  // namespace

Result<Placed> Runtime::place(Log& log, std::uint32_t bytes) {
  const std::uint32_t granules = granules_of(bytes);
  // A frame beyond the budget is given up as soon as its log is used again.
  if (!log.has_room(granules) || log.frame >= frame_limit_.load(std::memory_order_relaxed)) {
    close_log(log);
    YONDER_TRY_VOID(open_log(log));
  }
  return log.place(bytes);
}

// The object did not come to be: the last one of a log leaves no gap.
void Runtime::take_back(Log& log, const Placed& placed) {
  if (log.page == placed.word.page() && log.used == placed.word.granule() + placed.word.granules()) {
    log.used = placed.word.granule();
  } else {
    forget_object(placed.word);
  }
}

Result<Placed> Runtime::allocate(std::uint32_t bytes, bool fixed, PageHold& hold) {
  YONDER_CHECK(bytes != 0 && bytes <= kPageBytes, "a far object has 1 to 4096 bytes");
  ThreadState& state = thread();
  Log& log = fixed ? state.fixed : state.fresh;
  YONDER_TRY(placed, place(log, bytes));
  // The log pins the page until it is full; the hold takes over from there. The egress may be
  // looking at the page now (kLeaving): it will meet the pin, or we take the page back.
  auto [published, lasts] = publish(state, placed.word.page());
  hold = std::move(published);
  for (;;) {
    const PageEntry now = entry(placed.word.page());
    if (now.is_local()) break;
    if (now.state() == PageState::kLeaving) swap_entry(placed.word.page(), now, now.as(PageState::kLocal));
    sync::cpu_pause();  // kClosed: an evacuation that is about to meet the pin.
  }
  if (!lasts) hold.reset(pin(placed.frame));
  return placed;
}

void Runtime::free_object(PointerWord word) {
  ThreadState& state = thread();
  for (;;) {
    PageHold hold = publish(state, word.page()).hold;
    const PageEntry now = entry(word.page());
    switch (now.state()) {
      case PageState::kClosed:
        hold.reset();
        std::this_thread::yield();
        continue;
      case PageState::kForwarded: {
        const PointerWord moved = forwarded(word, records_[now.index()]);
        forget_inbound(moved);
        forget_object(word);
        word = moved;
        continue;
      }
      case PageState::kFree:
        YONDER_CHECK(false, "a far object is freed once");
        return;
      default:
        forget_object(word);
        // relaxed: a hint that there is something to tidy; rarely, because all threads share it.
        if (++state.freed % kFreedAtOnce == 0)
          sparse_hint_.fetch_add(kFreedAtOnce, std::memory_order_relaxed);
        return;
    }
  }
}

}  // namespace yonder::heap::internal
