#include "yonder/heap/internal/runtime.h"

#include <pthread.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>

#include "yonder/base/check.h"
#include "yonder/base/log.h"
#include "yonder/heap/internal/barrier.h"
#include "yonder/os/steady_clock.h"

namespace yonder::heap::internal {
namespace {

constexpr std::uint32_t kMinFrames = 64;
// Page numbers are used up by pages whose pointers have not been healed yet; so there are
// more of them than slots.
constexpr std::uint64_t kPagesPerSlot = 4;
// Page 0 is null, page 1 stands for huge objects.
constexpr std::uint32_t kFirstPage = 2;

std::uint32_t pages_in(Bytes bytes) {
  return static_cast<std::uint32_t>(
      std::min<std::uint64_t>(bytes.count() / kPageBytes, PageEntry::kMaxIndex));
}

Result<void> check(const HeapOptions& options) {
  const Bytes max_local = options.max_local.count() == 0 ? options.far : options.max_local;
  if (options.local.count() < kMinFrames * kPageBytes)
    return fail(ErrorCode::kInvalidArgument, "far heap: local memory below 64 pages");
  if (options.far < options.local || max_local < options.local)
    return fail(ErrorCode::kInvalidArgument, "far heap: more local than far memory, or than max_local");
  if (options.far.count() / kPageBytes > PageEntry::kMaxIndex / kPagesPerSlot)
    return fail(ErrorCode::kInvalidArgument, "far heap: more far memory than page entries can name");
  const auto is_share = [](double share) { return share >= 0 && share <= 1; };
  if (!is_share(options.page_above) || !is_share(options.object_below) || !is_share(options.evacuate_below) ||
      options.object_below > options.page_above)
    return fail(ErrorCode::kInvalidArgument, "far heap: shares must lie between 0 and 1, in order");
  return {};
}

template <typename T>
Result<T*> make_table(os::Mapping& memory, std::uint64_t count) {
  YONDER_TRY(mapping, os::Mapping::anonymous({.bytes = count * sizeof(T)}));
  memory = std::move(mapping);
  // Fresh memory is zero, which is the first state of every table of ours.
  return reinterpret_cast<T*>(memory.data());
}

// A child has copies of the tables but shares slots and connections with its parent: what it
// wrote there would be the parent's data.
void forget_heap_in_child() { g_runtime = nullptr; }

}  // namespace

Runtime::Runtime(const HeapOptions& options, os::Membarrier membarrier)
    : options_(options),
      process_(::getpid()),
      frame_count_(pages_in(options.max_local.count() == 0 ? options.far : options.max_local)),
      slot_count_(pages_in(options.far)),
      page_count_(static_cast<std::uint32_t>(slot_count_ * kPagesPerSlot) + kFirstPage),
      membarrier_(membarrier),
      // Two sets of slots each: the runtime's own work needs some when guards have all others.
      domain_(std::size_t{options.max_threads} * 2, [this] { membarrier_.issue(); }),
      frame_limit_(pages_in(options.local)),
      free_frames_(0, pages_in(options.local)),
      free_slots_(0, slot_count_),
      free_pages_(kFirstPage, page_count_),
      free_records_(0, page_count_),
      arriving_(std::make_unique<ArrivingPage[]>(kMaxArriving)),
      free_arriving_(0, kMaxArriving),
      read_ahead_limit_(kMaxWindow),
      in_use_(domain_) {
  for (std::uint32_t i = 0; i < kMaxArriving; ++i) arriving_[i].runtime = this;
}

Result<std::unique_ptr<Runtime>> Runtime::create(const HeapOptions& options) {
  YONDER_TRY_VOID(check(options));
  if (g_runtime != nullptr) return fail(ErrorCode::kAlreadyExists, "far heap: this process has one");
  YONDER_TRY(membarrier, os::Membarrier::create(os::Membarrier::Scope::kPrivate));
  std::unique_ptr<Runtime> runtime(new Runtime(options, membarrier));
  YONDER_TRY(store, SlotStore::open({.node = options.node,
                                     .link = options.link,
                                     .bytes = Bytes(std::uint64_t{runtime->slot_count_} * kPageBytes),
                                     .lanes = options.lanes,
                                     .timeout = options.timeout}));
  runtime->store_ = std::move(store);
  YONDER_TRY(frames,
             make_table<std::byte>(runtime->frames_, std::uint64_t{runtime->frame_count_} * kPageBytes));
  (void)runtime->frames_.prefer_huge_pages(0, runtime->frames_.size());
  YONDER_TRY_VOID(runtime->store_->use_memory(runtime->frames_.bytes()));
  YONDER_TRY(entries, make_table<std::atomic<std::uint64_t>>(runtime->entries_memory_, runtime->page_count_));
  // Read at random by every dereference: a miss of the TLB on the way would be one more.
  (void)runtime->entries_memory_.prefer_huge_pages(0, runtime->entries_memory_.size());
  YONDER_TRY(live, make_table<AtomicGranuleBits>(runtime->live_memory_, runtime->page_count_));
  YONDER_TRY(counts,
             make_table<std::atomic<std::uint16_t>>(runtime->live_count_memory_, runtime->page_count_));
  YONDER_TRY(inbound, make_table<std::atomic<std::uint16_t>>(runtime->inbound_memory_, runtime->page_count_));
  YONDER_TRY(staging, make_table<std::byte>(runtime->staging_memory_, kFramesAtOnce * kPageBytes));
  (void)staging;
  YONDER_TRY(infos, make_table<FrameInfo>(runtime->infos_memory_, runtime->frame_count_));
  YONDER_TRY(records, make_table<ForwardRecord>(runtime->records_memory_, runtime->page_count_));
  runtime->live_ = live;
  runtime->live_count_ = counts;
  runtime->inbound_ = inbound;
  runtime->records_ = records;
  g_view = {.entries = entries, .frames = frames, .infos = infos};
  g_runtime = runtime.get();
  static const int at_fork = ::pthread_atfork(nullptr, nullptr, &forget_heap_in_child);
  (void)at_fork;
  runtime->janitor_thread_ = std::thread([raw = runtime.get()] { raw->janitor(); });
  return runtime;
}

Runtime::~Runtime() {
  if (::getpid() != process_) {
    // A child of fork that ends normally: the janitor and the connections are the parent's.
    janitor_thread_.detach();
    (void)store_.release();
    const sync::LockGuard lock(threads_mutex_);
    for (auto& thread : threads_) (void)thread.release();
    return;
  }
  if (janitor_thread_.joinable()) {
    {
      const sync::LockGuard lock(janitor_mutex_);
      stopping_ = true;
    }
    janitor_wakes_.notify_all();
    janitor_thread_.join();
  }
  if (t_thread != nullptr && g_runtime == this) leave(*t_thread);
  {
    const sync::LockGuard lock(threads_mutex_);
    YONDER_CHECK(threads_.empty(), "threads that used far pointers end before the heap");
  }
  store_.reset();  // Tells reads that are under way while the tables are still there.
  if (g_runtime == this) {
    g_runtime = nullptr;
    g_view = {};
  }
}

// ---------------------------------------------------------------- pages

bool Runtime::swap_entry(std::uint32_t page, PageEntry from, PageEntry to) {
  // acq_rel: whoever sees the new state sees what was done before; and we see what the maker of
  // the old one did.
  return g_view.entries[page].compare_exchange_strong(from.bits, to.bits, std::memory_order_acq_rel);
}

void Runtime::change_state(std::uint32_t page, PageState to) {
  for (;;) {
    const PageEntry now = entry(page);
    if (swap_entry(page, now, now.as(to))) return;
  }
}

// A few pages are kept for the egress: taking out garbage needs a place to put the rest.
std::uint32_t Runtime::page_limit() const {
  return slot_count_ - std::clamp<std::uint32_t>(slot_count_ / 64, 4, 64);
}

std::optional<std::uint32_t> Runtime::try_new_page(std::uint32_t limit) {
  // relaxed: a count. Nobody passes the limit, because each adds before it looks.
  if (committed_pages_.fetch_add(1, std::memory_order_relaxed) < limit) {
    if (const auto page = free_pages_.take()) return page;
  }
  committed_pages_.fetch_sub(1, std::memory_order_relaxed);
  return std::nullopt;
}

Result<std::uint32_t> Runtime::new_page() {
  if (const auto page = try_new_page(page_limit())) return *page;
  {
    // Dead pages may wait for the janitor, and others be nearly empty.
    const sync::LockGuard lock(egress_mutex_);
    free_dead_pages();
    while (is_full() && evacuate_absent() != 0) {
    }
  }
  if (const auto page = try_new_page(page_limit())) return *page;
  return fail(ErrorCode::kOutOfMemory, "far heap: all far memory is in use", slot_count_);
}

Result<void> Runtime::open_log(Log& log) {
  YONDER_TRY(page, new_page());
  const Result<std::uint32_t> frame = acquire_frame();
  if (!frame) {
    free_pages_.give_back(page);
    committed_pages_.fetch_sub(1, std::memory_order_relaxed);
    return std::unexpected(frame.error());
  }
  start_log(log, page, *frame, true);
  return {};
}

void Runtime::start_log(Log& log, std::uint32_t page, std::uint32_t frame, bool used) {
  for (auto& word : live_[page]) word.store(~std::uint64_t{0}, std::memory_order_relaxed);
  live_count_[page].store(kGranulesPerPage, std::memory_order_relaxed);
  fill_frame_info(frame, page, kNoSlot);
  g_view.infos[frame].pins.store(1, std::memory_order_relaxed);
  if (used)
    for (auto& word : g_view.infos[frame].cards) word.store(~std::uint64_t{0}, std::memory_order_relaxed);
  const bool by_page = log.fixed || options_.mode == Mode::kPaging;
  // The stamps go on where the last life of this page number ended.
  const PageEntry fresh = entry(page).with(log.fixed ? PageEntry::kFixed : 0).on_path(by_page);
  const PageEntry open = fresh.arrived(frame).with(PageEntry::kDirty);
  log = {.page = page, .frame = frame, .used = 0, .stamp = used ? open.stamp_bits() : 0, .fixed = log.fixed};
  set_entry(page, open);
}

void Runtime::close_log(Log& log) {
  if (log.page == 0) return;
  const Log closed = log;
  log = {.fixed = closed.fixed};
  if (closed.used < kGranulesPerPage) clear_live(closed.page, closed.used, kGranulesPerPage - closed.used);
  // release: pairs with the egress's look at the pins; the objects are complete.
  g_view.infos[closed.frame].pins.fetch_sub(1, std::memory_order_release);
}

void Runtime::clear_live(std::uint32_t page, std::uint32_t granule, std::uint32_t count) {
  for_granule_words(granule, count, [&](std::uint32_t word, std::uint64_t mask) {
    const std::uint64_t before = live_[page][word].fetch_and(~mask, std::memory_order_relaxed);
    YONDER_CHECK((before & mask) == mask, "a far object is freed once");
  });
  // acq_rel: who brings it to zero has seen all others' ends.
  const auto granules = static_cast<std::uint16_t>(count);
  if (live_count_[page].fetch_sub(granules, std::memory_order_acq_rel) != granules) return;
  dead_pages_.give_back(page);
  // Frames that were just used are better than ones that never were: those cost a page fault.
  if (dead_pages_.size() > kManyDead) wake_janitor();
}

void Runtime::mark_dirty_at(const void* address) {
  const auto* byte = static_cast<const std::byte*>(address);
  if (byte < frames_.data() || byte >= frames_.data() + frames_.size()) return;
  const auto frame = static_cast<std::size_t>(byte - frames_.data()) / kPageBytes;
  const std::uint32_t page = g_view.infos[frame].page.load(std::memory_order_relaxed);
  add_flags(page, entry(page), PageEntry::kDirty);  // Under the caller's hold.
}

// ---------------------------------------------------------------- frames

void Runtime::fill_frame_info(std::uint32_t frame, std::uint32_t page, std::uint32_t slot) {
  // relaxed: the entry that makes the frame reachable is stored with release afterwards.
  FrameInfo& info = g_view.infos[frame];
  for (auto& word : info.cards) word.store(0, std::memory_order_relaxed);
  info.slot.store(slot, std::memory_order_relaxed);
  info.read_ahead.store(0, std::memory_order_relaxed);
  info.pins.store(0, std::memory_order_relaxed);
  info.page.store(page, std::memory_order_release);
}

void Runtime::release_frame(std::uint32_t frame) {
  g_view.infos[frame].page.store(0, std::memory_order_relaxed);
  if (frame < frame_limit_.load(std::memory_order_relaxed)) {
    free_frames_.give_back(frame);
  } else {
    (void)frames_.drop_pages(std::size_t{frame} * kPageBytes, kPageBytes);  // It is beyond the budget.
  }
}

std::optional<std::uint32_t> Runtime::try_acquire_frame() {
  const auto frame = free_frames_.take();
  if (is_short_of_frames()) wake_janitor();
  return frame;
}

// ---------------------------------------------------------------- calls

Bytes Runtime::local() const {
  return Bytes(std::uint64_t{frame_limit_.load(std::memory_order_relaxed)} * kPageBytes);
}

Result<void> Runtime::set_local(Bytes local) {
  const std::uint32_t wanted = pages_in(local);
  if (wanted < kMinFrames || wanted > frame_count_)
    return fail(ErrorCode::kInvalidArgument, "far heap: local memory below 64 pages or above max_local");
  const sync::LockGuard lock(egress_mutex_);
  const std::uint32_t before = frame_limit_.load(std::memory_order_relaxed);
  frame_limit_.store(wanted, std::memory_order_relaxed);
  if (wanted >= before) {
    free_frames_.add(before, wanted);
    return {};
  }
  free_frames_.drop_from(wanted);
  close_log(hot_log_);
  close_log(cold_log_);
  return vacate_frames(wanted, before);
}

// What is in the frames from `first` to `end` leaves. Logs of other threads stay until they are
// used again: a few frames, which count little.
Result<void> Runtime::vacate_frames(std::uint32_t first, std::uint32_t end) {
  if (t_thread != nullptr) {
    close_log(t_thread->fresh);
    close_log(t_thread->fixed);
    close_log(t_thread->fetched);
  }
  const std::uint32_t few = std::max<std::uint32_t>(first / 50, 4);
  const Deadline deadline = Deadline::at(os::SteadyClock::read() + options_.timeout);
  std::uint32_t occupied = 0;
  do {
    free_frames_.drop_from(first);  // Again: one may have been given back while the limit changed.
    collect_frames_from(first);
    free_dead_pages();
    if (send_away() == 0) std::this_thread::yield();
    occupied = 0;
    for (std::uint32_t frame = first; frame < end; ++frame)
      occupied += g_view.infos[frame].page.load(std::memory_order_acquire) != 0 ? 1 : 0;
  } while (occupied > few && !deadline.passed(os::SteadyClock::read()));
  for (std::uint32_t frame = first; frame < end; ++frame)
    if (g_view.infos[frame].page.load(std::memory_order_acquire) == 0)
      YONDER_TRY_VOID(frames_.drop_pages(std::size_t{frame} * kPageBytes, kPageBytes));
  if (occupied > few)
    return fail(ErrorCode::kOutOfMemory, "far heap: guards or pins keep pages in the memory that should go",
                occupied);
  return {};
}

HeapStats Runtime::stats() const {
  Counters sum;
  std::size_t threads = 0;
  {
    const sync::LockGuard lock(threads_mutex_);
    sum.add(retired_counters_);
    for (const auto& thread : threads_) sum.add(thread->counters);
    threads = threads_.size();
  }
  sum.add(egress_counters_);
  const std::uint64_t limit = frame_limit_.load(std::memory_order_relaxed);
  const std::uint64_t pages = committed_pages_.load(std::memory_order_relaxed);
  constexpr std::uint64_t kPerPage =
      sizeof(PageEntry) + sizeof(AtomicGranuleBits) + 2 * sizeof(std::uint16_t);
  return {.hits = sum.get(Count::kHits),
          .page_ins = sum.get(Count::kPageIns),
          .object_ins = sum.get(Count::kObjectIns),
          .page_copies = sum.get(Count::kPageCopies),
          .objects_from_copies = sum.get(Count::kObjectsFromCopies),
          .objects_ahead = sum.get(Count::kObjectsAhead),
          .objects_ahead_used = sum.get(Count::kObjectsAheadUsed),
          .bytes_in = sum.get(Count::kBytesIn),
          .bytes_wanted = sum.get(Count::kBytesWanted),
          .read_ahead = sum.get(Count::kReadAhead),
          .read_ahead_used = sum.get(Count::kReadAheadUsed),
          .pages_written = sum.get(Count::kPagesWritten),
          .pages_dropped = sum.get(Count::kPagesDropped),
          .objects_written = sum.get(Count::kObjectsWritten),
          .flips_to_page = sum.get(Count::kFlipsToPage),
          .flips_to_object = sum.get(Count::kFlipsToObject),
          .evacuated_pages = sum.get(Count::kEvacuatedPages),
          .healed = sum.get(Count::kHealed),
          .stalls = sum.get(Count::kStalls),
          .egress_ns = sum.get(Count::kEgressNs),
          .local_bytes = limit * kPageBytes,
          .free_bytes = std::uint64_t{free_frames_.size()} * kPageBytes,
          .live_pages = pages,
          .metadata_bytes = pages * kPerPage + limit * sizeof(FrameInfo) +
                            threads * (sizeof(ThreadState) + PageCopies::kBytes)};
}

void Runtime::lost(const Error& error) const {
  if (options_.on_lost) options_.on_lost(error);
  log_error("heap", "far memory is lost, and no on_lost handles it", {{"error", error.to_string()}});
  std::abort();
}

// ---------------------------------------------------------------- what the barrier calls

namespace {

Runtime& runtime() {
  YONDER_CHECK(g_runtime != nullptr, "a far pointer is used without a heap (or in a forked child)");
  return *g_runtime;
}

}  // namespace

Result<Entered> try_enter_slow(std::atomic<std::uint64_t>& at, Access access) {
  return runtime().enter(at, access);
}
Entered enter_slow(std::atomic<std::uint64_t>& at, Access access) {
  const Result<Entered> entered = runtime().enter(at, access);
  if (!entered) runtime().lost(entered.error());
  return *entered;
}
HoldWord pinned(const Entered& entered) {
  const auto frame = static_cast<std::size_t>(entered.object - g_view.frames) / kPageBytes;
  FrameInfo& info = g_view.infos[frame];
  info.pins.fetch_add(1, std::memory_order_relaxed);  // Under the hold, which then ends.
  end_hold(entered.hold);
  return hold_of(&info);
}
Result<Placed> allocate_slow(std::size_t bytes, bool fixed, PageHold& hold) {
  return runtime().allocate(static_cast<std::uint32_t>(bytes), fixed, hold);
}
void free_object(std::uint64_t word) { runtime().free_object(PointerWord{word}); }
void lost(const Error& error) { runtime().lost(error); }
void prefetch_far(std::atomic<std::uint64_t>& at) { runtime().prefetch(at); }

}  // namespace yonder::heap::internal
