#pragma once
// Heap: the objects of a memory node, in this process.
//
// A program allocates objects of 1 byte to 64 MiB, names them by ObjectPtr, and
// reads and writes them from any registered thread; meanwhile its Compactor
// (compactor.h) may move them. Everything here is local: the server calls it for
// remote clients, an embedded user calls it directly, and one-sided readers use the
// same memory through the block table and the superblocks.
//
//   auto heap = Heap::create(clock, {.limit = 1_GiB});
//   auto thread = (*heap)->register_thread();
//   ObjectPtr object = thread->alloc(100).value();       // 100 zero bytes
//   thread->write(object, bytes);
//   thread->read(object, buffer);
//   thread->free(object);
//
// What is guaranteed:
//   G1  Reads and writes of one object are linearizable, also while it is moved.
//   G2  A pointer that names no live object of this heap (freed, forged, foreign,
//       random) gives kNoSuchObject, kForeignPointer or kInvalidArgument and
//       touches nothing. A freed pointer is recognised by its object's id: it is
//       not mistaken for one of the next 2^b - 1 objects in its slot, where b is 16
//       minus the bits that count the slots of a block (9 to 16 random bits remain);
//       after a compaction used the slot, or the block's id was given to another
//       block, with a chance of 1 in 2^b. A pointer from before the objects of this node
//       were lost is told by 13 bits more (object_ptr.h).
//   G3  A read never waits for a move; a write or free waits at most for the copy
//       of one object.
//
// Concurrency: Heap from any thread; a HeapThread by one thread at a time.
// Lifetime: clock > heap > threads; the destructor checks that no thread is left.

#include <bit>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "yonder/base/id.h"
#include "yonder/base/result.h"
#include "yonder/base/time.h"
#include "yonder/node/compactor.h"
#include "yonder/node/frame_store.h"
#include "yonder/node/header_word.h"
#include "yonder/node/object_ptr.h"
#include "yonder/node/size_class.h"

namespace yonder::node {

namespace internal {
struct HeapCore;
struct Frame;
struct ThreadRecord;
struct Place;
}  // namespace internal

// Grows with every write of an object. Comparable for equality only: it wraps.
struct ObjectVersionTag;
using ObjectVersion = StrongId<ObjectVersionTag, std::uint32_t>;

// How an object is found whose pointer has an outdated slot (CoRM 3.2.1).
enum class Correction : std::uint8_t {
  kScan,   // look at the headers of its frame
  kIndex,  // ask an index of displaced objects; costs memory per displaced object
  kOwner,  // ask the thread that owns its block, by a message; as kIndex
};

// How the place of a block is published.
enum class Remap : std::uint8_t {
  kTable,  // in the block table only
  kMmap,   // also as a range of addresses per block (block_views.h): one block per frame
};

class Keeper;

struct HeapOptions {
  NodeId node;                          // Goes into every pointer.
  Bytes limit{std::uint64_t{1} << 30};  // Of memory in frames.
  Bytes superblock{std::uint64_t{128} << 20};
  os::HugePages huge_pages = os::HugePages::kOff;
  // Free memory goes back to the system; see FrameStoreOptions.
  bool give_back = true;
  SizeClassOptions classes;
  Remap remap = Remap::kTable;
  // Remap::kMmap: how many blocks there can be, for each is a mapping; 0: as many as
  // vm.max_map_count allows (BlockViews::default_limit()). No huge pages.
  std::uint32_t max_views = 0;
  class ViewObserver* view_observer = nullptr;  // Outlives the heap.
  Correction correction = Correction::kScan;
  // Correction::kOwner: a block belongs to one of so many threads, those that register
  // first. At least 1; the server says how many threads serve.
  std::uint32_t owners = 4;
  std::uint32_t max_threads = 64;
  Duration longest_wait = std::chrono::seconds(1);  // For an object that another thread holds.
  // Of a copy that is made without holding the object; one that took longer is made again with
  // the object held. At most kVersionWrapBound; 0: nothing is read without holding it.
  Duration longest_copy = kVersionWrapBound;
  std::uint64_t seed = 0;  // Of the object ids; 0: drawn from the system.
  // Holds the memory for whoever comes after this process; what it holds already is
  // adopted (keeper.h). Costs a copy of the bytes of each write.
  Keeper* keeper = nullptr;
  // Told of each superblock before it is used, to register it with the fabric.
  std::function<Result<void>(const Superblock&)> on_superblock;
  CompactorOptions compaction;
  // Called without locks when the limit is reached and compaction did not help;
  // true: something was freed, try again.
  std::function<bool()> on_shortage;
};

struct ClassStats {
  std::uint32_t slot_bytes = 0;
  std::uint64_t live = 0;       // Objects.
  std::uint64_t allocated = 0;  // Ever.
  std::uint64_t freed = 0;      // Ever.
  std::uint64_t frames = 0;
  std::uint64_t slots = 0;        // Of these frames.
  std::uint64_t frame_bytes = 0;  // Of these frames.
  // Slots per live object: 1 is perfect. 1 if the class is empty and has no frame.
  double fragmentation() const;
};

// What a heap found in memory that another process left.
struct AdoptionReport {
  std::uint64_t frames = 0;
  std::uint64_t objects = 0;
  std::uint64_t writes_finished = 0;  // Under way when it ended, not acknowledged yet.
  std::uint64_t holds_ended = 0;      // Objects that somebody held without changing them.
  std::uint64_t moves_undone = 0;
  std::uint64_t blocks_finished = 0;  // On their way to another frame.
};

// Correction::kOwner: who said where an object is.
struct OwnerAnswers {
  std::uint64_t by_others = 0;   // The owner, as a rule.
  std::uint64_t by_asker = 0;    // The asker itself: it owns the block, or its owner was away.
  std::uint64_t unanswered = 0;  // In time; the headers said it.
};

struct HeapStats {
  std::vector<ClassStats> classes;   // One per size class; the last is that of spans.
  std::uint64_t active_bytes = 0;    // Frames in use, retired ones included.
  std::uint64_t retired_bytes = 0;   // Waiting for slow readers before they go back.
  std::uint64_t metadata_bytes = 0;  // Beside the frames: bookkeeping, frame map, block table.
  std::uint32_t blocks = 0;          // Block ids in use.
  std::uint64_t corrections = 0;     // Operations that found their object elsewhere.
  OwnerAnswers owner_answers;
};

class Heap;

// What one thread needs to use the heap. Move-only.
class HeapThread {
 public:
  HeapThread(HeapThread&& other) noexcept;
  HeapThread& operator=(HeapThread&&) = delete;
  ~HeapThread();

  // A new object of `bytes` zero bytes. kInvalidArgument: 0, or above 64 MiB;
  // kOutOfMemory: the limit, after compaction and on_shortage; kResourceExhausted:
  // block ids, or mappings for their views.
  //
  // Inline, as free() is: the common way returns in registers.
  Result<ObjectPtr> alloc(std::uint32_t bytes) {
    if (const ObjectPtr object = alloc_from_bin(bytes)) [[likely]]
      return in_one_piece(object);
    return alloc_elsewhere(bytes, AtLimit::kRelieve);
  }

  // The same without relief: kOutOfMemory at once at the limit.
  Result<ObjectPtr> try_alloc(std::uint32_t bytes) {
    if (const ObjectPtr object = alloc_from_bin(bytes)) [[likely]]
      return object;
    return alloc_elsewhere(bytes, AtLimit::kFail);
  }

  // All functions below: G2's errors, and kDeadlineExceeded if another thread held
  // the object for longest_wait. Those that take a reference correct the hint.

  Result<void> free(ObjectPtr object) {
    if (free_at_hint(object)) [[likely]]
      return {};
    return free_elsewhere(object);
  }
  // The first out.size() bytes, and their version. kOutOfBounds: more than the object has.
  Result<ObjectVersion> read(ObjectPtr& object, std::span<std::byte> out);
  // Replaces the first data.size() bytes; returns the new version. kOutOfBounds.
  Result<ObjectVersion> write(ObjectPtr& object, std::span<const std::byte> data);
  // The same, if the object still has that version; else kVersionMismatch with the
  // present version as detail.
  Result<ObjectVersion> write_if_version(ObjectPtr& object, ObjectVersion expected,
                                         std::span<const std::byte> data);
  // The pointer with the slot where the object is now.
  Result<ObjectPtr> find(ObjectPtr object);
  // Makes the frame where the object is now its home, so that its old block's id
  // can be used again, and returns the pointer to use from now on: the old one
  // names nothing afterwards. If nothing can be gained now, returns the corrected
  // old pointer, which stays valid.
  Result<ObjectPtr> release_ptr(ObjectPtr object);

  // Correction::kOwner: answers what other threads asked this one. For threads that
  // serve, with every request: a few loads if nothing was asked. Nobody depends on it.
  void answer_others();

 private:
  friend class Heap;
  HeapThread(internal::HeapCore& core, internal::ThreadRecord& record) : core_(&core), record_(&record) {}

  enum class AtLimit : std::uint8_t { kRelieve, kFail };

  // The same pointer, made in a vector register. Compilers copy the 16 bytes of a pointer
  // out of a Result with one load; after two stores of its words that load would have to
  // wait for the cache, 5 ns of an allocation of 20, but one store is handed over.
  static ObjectPtr in_one_piece(ObjectPtr object) {
    using Words [[gnu::vector_size(16)]] = std::uint64_t;
    return std::bit_cast<ObjectPtr>(Words{object.low(), object.high()});
  }
  ObjectPtr alloc_from_bin(std::uint32_t bytes);
  Result<ObjectPtr> alloc_elsewhere(std::uint32_t bytes, AtLimit at_limit);
  Result<ObjectPtr> alloc_from_pool(std::uint8_t size_class, std::uint32_t bytes, AtLimit at_limit);
  Result<ObjectPtr> alloc_span(std::uint32_t bytes, AtLimit at_limit);
  void free_span(FrameId frame);
  bool free_at_hint(ObjectPtr object);
  Result<void> free_elsewhere(ObjectPtr object);
  // True: something was freed, and it is worth trying again, for the `relief`th time.
  bool relieve(AtLimit at_limit, int relief);
  Result<ObjectVersion> read_elsewhere(ObjectPtr& object, std::span<std::byte> out);
  Result<std::optional<ObjectVersion>> read_optimistically(ObjectPtr& object, std::span<std::byte> out);
  Result<ObjectVersion> read_locked(ObjectPtr& object, std::span<std::byte> out);
  Result<ObjectVersion> write_object(ObjectPtr& object, const ObjectVersion* expected,
                                     std::span<const std::byte> data);
  Result<internal::Place> lock_object(ObjectPtr object);
  Result<internal::Place> lock_elsewhere(ObjectPtr object);
  void note_correction(ObjectPtr& object, std::uint32_t slot);

  internal::HeapCore* core_;
  internal::ThreadRecord* record_;
};

class Heap {
 public:
  // kInvalidArgument (see FrameStore and SizeClasses), kOutOfMemory. With a keeper that
  // holds memory: kAlreadyExists (a process that lives uses it), kConfigInvalid (it was
  // made with other options; the message says which), kUnsupported (by another
  // version), kCorrupt (it contradicts itself); nothing was adopted then.
  static Result<std::unique_ptr<Heap>> create(const Clock& clock, const HeapOptions& options);
  Heap(const Heap&) = delete;
  Heap& operator=(const Heap&) = delete;
  ~Heap();

  // kResourceExhausted: max_threads are registered.
  Result<HeapThread> register_thread();

  // Moves objects together; does nothing unless asked, or started in the background.
  Compactor& compactor();

  // Exact once the threads rest.
  HeapStats stats() const;
  // Gives all free frames back that nobody looks at any more. The heap does so by
  // itself, in batches, but keeps a few empty frames; a caller that wants the
  // memory gone now calls this. True: all is gone.
  bool reclaim();

  // At the limit: lets allocations have the single free slots of frames that are used up
  // otherwise. alloc() does so by itself; try_alloc() has no time for it.
  void offer_leftovers();

  // A number that these objects have for as long as they live, whatever process
  // holds them. Never 0.
  std::uint64_t life() const;
  // What was found at the start; absent if the heap began empty.
  const std::optional<AdoptionReport>& adoption() const { return adoption_; }

  // What one-sided readers need: superblocks and block table as regions, classes
  // and validator for the arithmetic.
  const FrameStore& frames() const;
  const class BlockTable& blocks() const;
  const class BlockViews* views() const;  // Null unless Remap::kMmap.
  const SizeClasses& classes() const;

  // Aborts if anything is inconsistent. Requires that no thread is inside an
  // operation and no compaction is running (it may be between slices).
  void check_invariants() const;

 private:
  explicit Heap(std::unique_ptr<internal::HeapCore> core);
  static Result<std::unique_ptr<internal::HeapCore>> make_core(const Clock& clock, const HeapOptions& options,
                                                               SizeClasses classes,
                                                               std::unique_ptr<FrameStore> store,
                                                               std::unique_ptr<class BlockTable> table);
  static Result<std::unique_ptr<Heap>> create_kept(const Clock& clock, HeapOptions options,
                                                   SizeClasses classes, std::uint64_t life);
  const std::unique_ptr<internal::HeapCore> core_;
  std::optional<AdoptionReport> adoption_;
};

}  // namespace yonder::node
