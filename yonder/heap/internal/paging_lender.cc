#include "yonder/heap/internal/paging_lender.h"

#include <sys/uio.h>

#include <array>
#include <thread>

#include "yonder/base/check.h"
#include "yonder/heap/internal/unchecked_reads.h"
#include "yonder/os/steady_clock.h"

namespace yonder::heap::internal {
namespace {

// Constant zeros in place of a page that is nowhere.
alignas(kPageBytes) std::array<std::byte, kPageBytes> zeros{};

bool is_dirty(PageWord word) { return word.state() == PagingState::kResident && word.dirty(); }

// Calls act(first, count) for runs of neighbours that `wanted` admits.
template <typename Batch, typename Wanted, typename Act>
void for_each_run(const Batch& batch, Wanted wanted, Act act) {
  for (std::size_t i = 0; i < batch.size();) {
    if (!wanted(batch[i].before)) {
      ++i;
      continue;
    }
    std::size_t end = i + 1;
    while (end < batch.size() && batch[end].page == batch[end - 1].page + 1 && wanted(batch[end].before))
      ++end;
    act(batch[i].page, end - i);
    i = end;
  }
}

}  // namespace

Result<void> PagingLender::prepare(std::size_t first, std::size_t last, LendKind kind, Deadline deadline) {
  Batch batch;
  batch.reserve(kBatch);
  for (std::size_t page = first; page < last; ++page) {
    if (const Result<void> taken = take(page, kind, deadline, batch); !taken) {
      give_back(batch);
      return taken;
    }
    if (batch.size() == kBatch) YONDER_TRY_VOID(flush(batch, kind));
  }
  return flush(batch, kind);
}

Result<void> PagingLender::take(std::size_t page, LendKind kind, Deadline deadline, Batch& batch) {
  while (!try_take(page, kind, batch)) {
    if (deadline.passed(os::SteadyClock::read()))
      return fail(ErrorCode::kDeadlineExceeded, "lend a page that is pinned or moves");
    std::this_thread::yield();
  }
  return {};
}

bool PagingLender::try_take(std::size_t page, LendKind kind, Batch& batch) {
  const PageWord word = core_.word(page);
  switch (word.state()) {
    case PagingState::kFar:
      return true;
    case PagingState::kFresh:
      if (!word.slot_used())
        return core_.change(page, word, word.with_state(PagingState::kFar).with_slot_used(true));
      if (!core_.claim(page, word)) return false;
      break;
    case PagingState::kResident:
      if (!word.dirty() && kind == LendKind::kRead) return true;
      if (!core_.claim(page, word)) return false;
      // Who has a pin may write, or have the kernel write, at any time.
      if (core_.pins().covers(page)) {
        core_.settle(page, word);
        return false;
      }
      break;
    case PagingState::kChosen:
    case PagingState::kLeaving:
    case PagingState::kBusy:
      return false;
  }
  batch.push_back({.page = page, .before = word});
  return true;
}

Result<void> PagingLender::send(const Batch& batch) {
  Result<void> result;
  std::vector<Transfer> transfers;
  for_each_run(batch, &is_dirty, [&](std::size_t first, std::size_t count) {
    // No write after this is lost: it faults, and waits for the end of the lend.
    if (result) result = core_.faults().write_protect(core_.bytes(first, count), true);
    transfers.push_back({.local = core_.address(first),
                         .bytes = static_cast<std::uint32_t>(count * kPageBytes),
                         .offset = core_.slot_of(first, core_.word(first))});
  });
  if (!result) return result;
  std::size_t written = 0;
  for (const Claimed& each : batch) {
    written += is_dirty(each.before) ? 1 : 0;
    if (each.before.state() != PagingState::kFresh) continue;
    transfers.push_back(
        {.local = zeros.data(), .bytes = kPageBytes, .offset = core_.slot_of(each.page, each.before)});
  }
  if (transfers.empty()) return {};
  // Writers that raced with the protection came before it, which no checker can see.
  const UncheckedReads unchecked;
  YONDER_TRY_VOID(core_.store().write_many(transfers));
  count(core_.counters().written_pages, written);
  return {};
}

void PagingLender::drop(const Batch& batch) {
  std::vector<iovec> ranges;
  std::size_t pages = 0;
  for_each_run(
      batch, [](PageWord word) { return word.state() == PagingState::kResident; },
      [&](std::size_t first, std::size_t count) {
        ranges.push_back({.iov_base = core_.address(first), .iov_len = count * kPageBytes});
        for (std::size_t i = 0; i < count; ++i) core_.note_gone(first + i);
        pages += count;
      });
  if (pages == 0) return;
  dropper_.drop(ranges);
  core_.release(pages);
  count(core_.counters().left_pages, pages);
}

Result<void> PagingLender::flush(Batch& batch, LendKind kind) {
  if (batch.empty()) return {};
  if (const Result<void> sent = send(batch); !sent) {
    core_.counters().failures.fetch_add(1, std::memory_order_relaxed);
    give_back(batch);
    batch.clear();
    return sent;
  }
  if (kind == LendKind::kWrite) drop(batch);
  for (const auto& [page, before] : batch) {
    PageWord after = before.with_dirty(false).with_predicted(false).with_slot_used(true);
    const bool stays = kind == LendKind::kRead && before.state() == PagingState::kResident;
    after = stays ? after.with_state(PagingState::kResident)
                  : after.with_state(PagingState::kFar).with_stamp(core_.tick());
    core_.settle(page, after);
  }
  batch.clear();
  return {};
}

void PagingLender::give_back(const Batch& batch) {
  for (const auto& [page, before] : batch) {
    // Only the range's end makes this fail, and the space outlives its lends.
    if (is_dirty(before)) (void)core_.faults().write_protect(core_.bytes(page, 1), false);
    core_.settle(page, before);
  }
}

}  // namespace yonder::heap::internal
