#pragma once
// The runtime behind a far heap: the slow paths of the barrier, the logs in which objects are
// placed, and everything that makes room.
//
// A dereference *holds* the page of its object: it publishes the page's number in a hazard
// slot (a plain store), looks again whether the pointer still says that page, and then
// whether the page is local (barrier.h). Whoever wants to take a page away changes its entry,
// issues one membarrier for the whole batch, and lets go what the slots show. So:
//
// H1  A page that is held in state kLocal stays local and in its frame until the hold ends:
//     the holder stored its slot before it saw kLocal; the egress changed the entry before
//     its barrier and looks at the slots after it (sync/hazard.h, I1–I2). A page with pins is
//     left alone too; pins are raised under a hold, so the scan sees one or the other.
// H2  A pointer word that still says page A after A was published is right as long as the
//     hold lasts: moving an object away from A needs A not held (evacuation), or A absent
//     and the word itself as the place of the swap (object-in).
// H3  A page number (and its slot, and its record) is used again only after a barrier and a
//     scan that came after the last pointer to it was changed. So the compare-and-swap of an
//     object-in that lost cannot succeed later by accident.
//
// The three invariants of Atlas §4.2:
// A1  Object-in and page-in: the path of an absent page does not change while it is absent
//     (only the egress writes it, before the page becomes absent). Two page-ins: one wins
//     the swap kAbsent → kArriving. Two object-ins: one wins the swap of the pointer.
// A2  Object-in and page-out: the page an object comes in to is pinned by the log it is
//     placed in and held by whoever fetched it, until it is no longer used.
// A3  Dereference and evacuation: H1 with kClosed in place of kLeaving.
//     An object-in that finds no room makes the path kByPage under the egress lock, when
//     nobody holds the page: only then could two copies of an object come to be.
// Live-lock guard: when most frames are held, what leaves is marked to come back by page,
// which needs no new frame to be placed in and no pointer to be changed.
//
// A pointer that lies in a far object is itself far memory: changing it (object-in, healing)
// makes the page it lies in dirty, under the hold that the caller has on that page.
//
// Lock order: egress_mutex_ before threads_mutex_ before the spin locks of the lists; nothing
// is transferred under a spin lock.
//
// Concurrency: any thread. Lifetime: one at a time; g_runtime and g_view point to it.

#include <atomic>
#include <cstdint>
#include <memory>
#include <optional>
#include <thread>
#include <vector>

#include "yonder/base/result.h"
#include "yonder/heap/heap.h"
#include "yonder/heap/internal/index_list.h"
#include "yonder/heap/internal/tables.h"
#include "yonder/heap/internal/thread_state.h"
#include "yonder/heap/slot_store.h"
#include "yonder/os/mapping.h"
#include "yonder/os/membarrier.h"
#include "yonder/sync/hazard.h"
#include "yonder/sync/hazard_retire.h"
#include "yonder/sync/mutex.h"

namespace yonder::heap::internal {

class Runtime;

// A page that is being read ahead.
class ArrivingPage final : public AsyncRead {
 public:
  Runtime* runtime = nullptr;
  std::uint32_t page = 0;
  std::uint32_t frame = 0;
  PageEntry before;

 private:
  void on_done(const Result<void>& result) override;
};

class Runtime {
 public:
  static Result<std::unique_ptr<Runtime>> create(const HeapOptions& options);
  ~Runtime();

  // ---- objects (objects.cc)
  // Room for an object of up to a page, not yet pointed to, in the caller's log. Its page is
  // held: constructing the object may fill the log and let go of the page.
  Result<Placed> allocate(std::uint32_t bytes, bool fixed, PageHold& hold);
  // Frees an object that nobody else can reach. Never fails: a page that is absent stays so.
  void free_object(PointerWord word);

  // ---- ingress (ingress.cc)
  // Makes the object local and holds its page. The word may change meanwhile.
  Result<Entered> enter(std::atomic<std::uint64_t>& at, Access access);
  // Asks for an object that will be needed; never waits, may do nothing.
  void prefetch(std::atomic<std::uint64_t>& at);

  // ---- threads (thread_state.cc)
  ThreadState& thread();
  void leave(ThreadState& thread);

  // ---- the heap's calls
  Result<void> set_local(Bytes local);
  Bytes local() const;
  HeapStats stats() const;
  std::size_t evacuate_now();
  const HeapOptions& options() const { return options_; }
  // What read() and write() do with an error: does not return.
  [[noreturn]] void lost(const Error& error) const;

 private:
  friend class ArrivingPage;
  Runtime(const HeapOptions& options, os::Membarrier membarrier);

  // ---- pages (runtime.cc)
  PageEntry entry(std::uint32_t page) const { return {g_view.entries[page].load(std::memory_order_acquire)}; }
  bool swap_entry(std::uint32_t page, PageEntry from, PageEntry to);
  // From a state that only the caller may end, whatever bits holders add meanwhile.
  void change_state(std::uint32_t page, PageState to);
  // Adds bits that a holder may add.
  void add_flags(std::uint32_t page, PageEntry now, std::uint64_t flags) {
    // relaxed: read by the egress when our hold has ended (H1).
    if ((now.bits & flags) != flags) g_view.entries[page].fetch_or(flags, std::memory_order_relaxed);
  }
  void set_entry(std::uint32_t page, PageEntry to) {
    // release: pairs with the acquire in entry() and in the barrier; the frame is complete.
    g_view.entries[page].store(to.bits, std::memory_order_release);
  }
  Result<std::uint32_t> new_page();
  std::optional<std::uint32_t> try_new_page(std::uint32_t limit);
  std::uint32_t page_limit() const;
  bool is_full() const { return committed_pages_.load(std::memory_order_relaxed) >= page_limit(); }
  Result<void> open_log(Log& log);
  // `used`: what is placed in it counts as used already.
  void start_log(Log& log, std::uint32_t page, std::uint32_t frame, bool used);
  void close_log(Log& log);
  void clear_live(std::uint32_t page, std::uint32_t granule, std::uint32_t count);
  void forget_object(PointerWord word) { clear_live(word.page(), word.granule(), word.granules()); }
  // The last way to `to` through a record is gone.
  void forget_inbound(PointerWord to) {
    inbound_[to.page()].fetch_sub(static_cast<std::uint16_t>(to.granules()), std::memory_order_relaxed);
  }
  void mark_dirty_at(const void* address);

  // ---- frames (frames.cc)
  // Waits until there is one. kOutOfMemory: all are held, for as long as the timeout.
  Result<std::uint32_t> acquire_frame();
  std::optional<std::uint32_t> try_acquire_frame();
  void fill_frame_info(std::uint32_t frame, std::uint32_t page, std::uint32_t slot);
  void release_frame(std::uint32_t frame);
  Result<void> vacate_frames(std::uint32_t first, std::uint32_t end) YONDER_REQUIRES(egress_mutex_);

  // ---- ingress
  Result<Placed> place(Log& log, std::uint32_t bytes);
  void take_back(Log& log, const Placed& placed);
  // A hold of the caller's guards if a slot is free (`lasts`), else one of the runtime's own, which
  // whoever keeps it turns into a pin.
  struct Published {
    PageHold hold;
    bool lasts;
  };
  Published publish(ThreadState& thread, std::uint32_t page);
  HoldWord pin(std::uint32_t frame);
  std::byte* finish_enter(std::atomic<std::uint64_t>& at, PointerWord word, PageEntry entry, Access access);
  Result<void> page_in(std::uint32_t page, PageEntry entry, std::uint32_t bytes_wanted);
  Result<void> object_in(std::atomic<std::uint64_t>& at, PointerWord word, PageEntry entry);
  Result<void> read_object(ThreadState& state, PointerWord word, PageEntry from, std::byte* to);
  void flip_to_page(std::uint32_t page, PageEntry entry);
  void heal(std::atomic<std::uint64_t>& at, PointerWord word, PageEntry entry);
  PointerWord forwarded(PointerWord word, const ForwardRecord& record) const;

  // ---- reading ahead (read_ahead.cc)
  static constexpr std::uint32_t kMaxWindow = 64;
  static constexpr std::uint32_t kMaxArriving = 256;
  void read_ahead(ThreadState& thread, std::uint32_t page);
  void first_touch(FrameInfo& info, std::uint32_t page);
  void extend_window(ThreadState& thread);
  std::uint32_t start_arrivals(ThreadState& thread, std::uint32_t first, std::int32_t stride,
                               std::uint32_t count);
  bool start_arrival(std::uint32_t page, std::vector<AsyncRead*>& started);
  void arrived(ArrivingPage& arriving, const Result<void>& result);
  void ask_for_object(ThreadState& thread, PointerWord word, AbsentStay now);
  bool take_early(ThreadState& thread, PointerWord word, AbsentStay now, std::byte* to);

  // ---- egress (egress.cc)
  static constexpr std::size_t kFramesAtOnce = 64;
  // Evacuation looks at so many frames for each object that was freed, so that its work is in
  // proportion to theirs however large the heap is.
  static constexpr std::size_t kFramesPerFreed = 4;
  static constexpr std::size_t kManyDead =
      4 * kFramesAtOnce;  // Pages: not to wait for the background's next turn.
  struct Victim {
    std::uint32_t page;
    std::uint32_t frame;
    PageEntry before;  // Its entry when it was chosen.
  };
  // Frees about `want` frames; how many it did.
  std::size_t make_room(std::size_t want) YONDER_REQUIRES(egress_mutex_);
  void collect_by_clock(std::size_t want, PageState as) YONDER_REQUIRES(egress_mutex_);
  void collect_frames_from(std::uint32_t first_frame) YONDER_REQUIRES(egress_mutex_);
  bool choose(std::uint32_t frame, PageState as) YONDER_REQUIRES(egress_mutex_);
  void look_who_holds() YONDER_REQUIRES(egress_mutex_);
  bool is_held(const Victim& victim) const YONDER_REQUIRES(egress_mutex_);
  std::size_t send_away() YONDER_REQUIRES(egress_mutex_);
  void keep_departing() YONDER_REQUIRES(egress_mutex_);
  Result<void> write_victims() YONDER_REQUIRES(egress_mutex_);
  bool finish_victim(const Victim& victim, bool written) YONDER_REQUIRES(egress_mutex_);
  bool comes_back_by_page(const FrameInfo& info, const Victim& victim) YONDER_REQUIRES(egress_mutex_);
  bool expects_pages_to_pay() YONDER_REQUIRES(egress_mutex_);
  void note_page_in(bool paid) YONDER_REQUIRES(egress_mutex_);
  void collect_dead() YONDER_REQUIRES(egress_mutex_);
  std::size_t free_dead() YONDER_REQUIRES(egress_mutex_);
  std::size_t free_dead_pages() YONDER_REQUIRES(egress_mutex_);
  bool free_page(std::uint32_t page, PageEntry before) YONDER_REQUIRES(egress_mutex_);

  // ---- evacuation (evacuation.cc)
  // A page whose objects are to go: what is live, what of it was used, and where it goes.
  struct Move {
    Victim victim;
    std::byte* bytes;  // Of the page: its frame, or a copy of its slot.
    ForwardRecord record;
  };
  // Empties up to `want` pages among the next `look_at` frames; how many it did.
  std::size_t evacuate(std::size_t want, std::size_t look_at) YONDER_REQUIRES(egress_mutex_);
  bool is_garbage_in_the_way() const;
  std::size_t disperse(std::size_t want) YONDER_REQUIRES(egress_mutex_);
  std::size_t collect_sparse(std::size_t want, std::size_t look_at) YONDER_REQUIRES(egress_mutex_);
  std::size_t move_unheld(bool cold_to_slots) YONDER_REQUIRES(egress_mutex_);
  std::size_t carry_out_moves(bool cold_to_slots) YONDER_REQUIRES(egress_mutex_);
  // Takes the garbage out of pages that are not here, when far memory runs short.
  std::size_t evacuate_absent() YONDER_REQUIRES(egress_mutex_);
  void collect_sparse_absent() YONDER_REQUIRES(egress_mutex_);
  bool is_short_of_slots() const;
  bool has_room_to_forward() const;
  bool may_empty(const Victim& victim) const YONDER_REQUIRES(egress_mutex_);
  bool plan_move(Move& move, bool cold_to_slots) YONDER_REQUIRES(egress_mutex_);
  bool reserve_room(Log& log, std::uint32_t granules) YONDER_REQUIRES(egress_mutex_);
  bool reserve_slot_room(std::uint32_t granules) YONDER_REQUIRES(egress_mutex_);
  void close_slot_log() YONDER_REQUIRES(egress_mutex_);
  void copy_runs(const Move& move, bool hot) YONDER_REQUIRES(egress_mutex_);
  void write_runs(const Move& move) YONDER_REQUIRES(egress_mutex_);
  void finish_move(const Move& move) YONDER_REQUIRES(egress_mutex_);
  void cancel_move(const Move& move) YONDER_REQUIRES(egress_mutex_);

  // ---- the background
  void janitor();
  bool is_short_of_frames() const;
  void wake_janitor();

  const HeapOptions options_;
  const int process_;                // A child of fork is another one.
  const std::uint32_t frame_count_;  // of max_local
  const std::uint32_t slot_count_;
  const std::uint32_t page_count_;  // of the far address space
  os::Membarrier membarrier_;
  std::unique_ptr<SlotStore> store_;
  os::Mapping frames_;
  os::Mapping entries_memory_;
  os::Mapping live_memory_;
  os::Mapping live_count_memory_;
  os::Mapping inbound_memory_;
  os::Mapping infos_memory_;
  os::Mapping records_memory_;
  AtomicGranuleBits* live_ = nullptr;
  std::atomic<std::uint16_t>* live_count_ = nullptr;
  // Granules of each page to which a record leads. A local page of that kind is not emptied itself,
  // so that few page numbers are kept by chains of records.
  std::atomic<std::uint16_t>* inbound_ = nullptr;
  ForwardRecord* records_ = nullptr;

  sync::HazardDomain<> domain_;

  std::atomic<std::uint32_t> frame_limit_;  // Frames from here on are given back.
  IndexList free_frames_;
  IndexList free_slots_;
  IndexList free_pages_;
  IndexList free_records_;
  IndexList dead_pages_;                           // Without a live object, not yet freed.
  std::atomic<std::uint32_t> committed_pages_{0};  // That may need a slot.
  std::atomic<std::uint32_t> forwarded_pages_{0};  // Bounded: page numbers for all others are left.
  std::atomic<std::uint32_t> held_victims_{0};     // Of the last sweep: how many frames were in use.
  std::atomic<std::uint64_t> barriers_{0};         // Issued by the egress: page_copies.h.
  std::atomic<std::uint32_t> filling_page_{0};     // The page of slot_log_, for those without the lock.
  std::atomic<bool> slots_unwritten_{false};       // Pages of it that were closed are not yet written.
  std::atomic<std::uint32_t> sparse_hint_{0};      // Objects freed since the last evacuation.

  std::unique_ptr<ArrivingPage[]> arriving_;  // Reads ahead under way; free ones are in the list.
  IndexList free_arriving_;
  std::atomic<std::uint32_t> read_ahead_limit_;  // Pages per window: falls when they are not used.

  mutable sync::Mutex threads_mutex_;
  std::vector<std::unique_ptr<ThreadState>> threads_ YONDER_GUARDED_BY(threads_mutex_);
  Counters retired_counters_ YONDER_GUARDED_BY(threads_mutex_);

  mutable sync::Mutex egress_mutex_;
  sync::HazardSnapshot<> in_use_ YONDER_GUARDED_BY(egress_mutex_);
  std::uint32_t hand_ YONDER_GUARDED_BY(egress_mutex_) = 0;
  std::vector<Victim> victims_ YONDER_GUARDED_BY(egress_mutex_);
  std::vector<Victim> dying_ YONDER_GUARDED_BY(egress_mutex_);
  std::vector<std::uint32_t> unsettled_ YONDER_GUARDED_BY(egress_mutex_);  // Dead pages that must wait.
  std::vector<Move> moves_ YONDER_GUARDED_BY(egress_mutex_);
  std::vector<Transfer> transfers_ YONDER_GUARDED_BY(egress_mutex_);
  std::atomic<ErrorCode> egress_error_{ErrorCode::kOk};  // Of the last write-out.
  Log hot_log_ YONDER_GUARDED_BY(egress_mutex_);
  Log cold_log_ YONDER_GUARDED_BY(egress_mutex_);
  Log slot_log_ YONDER_GUARDED_BY(egress_mutex_);  // Without a frame: objects go straight to its slot.
  double pages_that_paid_ YONDER_GUARDED_BY(egress_mutex_) = 1.0;  // Of those that came in by page, lately.
  std::uint32_t unproved_pages_ YONDER_GUARDED_BY(egress_mutex_) = 0;
  std::uint32_t evacuation_hand_ YONDER_GUARDED_BY(egress_mutex_) = 0;
  std::uint32_t absent_hand_ YONDER_GUARDED_BY(egress_mutex_) = 0;
  std::uint32_t absent_below_ YONDER_GUARDED_BY(egress_mutex_) =
      0;                        // Granules: so few live ones are worth it.
  os::Mapping staging_memory_;  // Copies of slots that are being emptied.
  Counters egress_counters_;    // relaxed atomics

  sync::Mutex janitor_mutex_;
  sync::Condition janitor_wakes_;
  bool stopping_ YONDER_GUARDED_BY(janitor_mutex_) = false;
  std::atomic<bool> janitor_wanted_{false};
  std::thread janitor_thread_;
};

inline constinit Runtime* g_runtime = nullptr;

}  // namespace yonder::heap::internal
