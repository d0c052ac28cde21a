#pragma once
// TableCore: one front end of a hash table (hash_table.h).
//
// Five files: table_core.cc (what the front end knows, and finding), table_lanes.cc (which
// changes leave together, and when), table_changes.cc (changing a bucket), table_growth.cc
// (splitting buckets), table_giving.cc (space for the others).
//
// Concurrency and lifetime: hash_table.h.

#include <coroutine>
#include <cstdint>
#include <deque>
#include <functional>
#include <list>
#include <memory>
#include <optional>
#include <queue>
#include <span>
#include <unordered_map>
#include <vector>

#include "yonder/base/prng.h"
#include "yonder/base/result.h"
#include "yonder/remote/buffer_pool.h"
#include "yonder/remote/port.h"
#include "yonder/remote/vector_io.h"
#include "yonder/structures/hash_table.h"
#include "yonder/structures/internal/bucket_image.h"
#include "yonder/structures/internal/table_layout.h"
#include "yonder/structures/internal/table_space.h"

namespace yonder::structures::internal {

// A change that somebody waits for.
struct Change {
  enum class Kind : std::uint8_t { kPut, kInsert, kUpdate, kUpdateIf, kErase };
  Kind kind = Kind::kPut;
  std::uint64_t hash = 0;
  std::span<const std::byte> key;
  std::span<const std::byte> value;
  TableVersion expected = 0;
  Deadline deadline;

  Result<TableVersion> result{TableVersion{}};
  bool done = false;
  bool is_held = false;  // Acknowledged already: nobody waits.
  std::coroutine_handle<> waiter;
};

// A put that was acknowledged before it left: it owns what it is made of.
struct PendingPut : Change {
  std::vector<std::byte> own_key;
  std::vector<std::byte> own_value;
};

// A bucket as it was at one moment: its place, its word, and the bytes of its image.
struct Bucket {
  ArrayWord array;
  std::uint64_t index = 0;
  std::uint64_t word = 0;
  std::vector<std::byte> bytes;
  ImageView image;  // Looks at `bytes`.

  std::uint64_t name() const { return bucket_name(array.log2, index); }
  std::uint64_t word_offset() const { return array.word_offset(index); }
};

class TableCore {
 public:
  TableCore(remote::Port port, const RegionToken& token, const TableShape& shape,
            const FrontEndOptions& options, std::unique_ptr<remote::BufferPool> pool);
  ~TableCore();

  Task<Result<void>> refresh(Deadline deadline);

  // By loads from a window, where the fabric gives one and nothing has moved; none: take
  // the long way.
  std::optional<Result<TableVersion>> find_near(std::span<const std::byte> key,
                                                std::vector<std::byte>& value);
  Task<Result<TableVersion>> find(std::span<const std::byte> key, std::vector<std::byte>& value,
                                  Deadline deadline);
  Task<void> find_many(std::span<FindItem> items, Deadline deadline);
  Task<Result<std::vector<ScannedEntry>>> scan(ScanCursor& cursor, Deadline deadline);
  // Waits for its turn, and leaves alone or with others.
  Task<Result<TableVersion>> change(Change change);
  Task<Result<void>> flush(Deadline deadline);
  Task<Result<void>> close(Deadline deadline);
  Task<Result<std::uint64_t>> size(Deadline deadline);
  Task<Result<void>> grow(Deadline deadline);

  const remote::Port& port() const { return port_; }
  const TableStats& stats() const { return stats_; }
  static Result<void> check_key(std::span<const std::byte> key);
  static Result<void> check_value(std::span<const std::byte> value);

 private:
  // The word of a bucket as it was a moment ago.
  struct Seen {
    ArrayWord array;
    std::uint64_t word = 0;
  };
  // Changes of one bucket that wait: for others that are under way, or for company.
  struct Lane {
    std::deque<Change*> waiting;
    std::size_t awaited = 0;  // So many of these have somebody waiting: nothing is held back then.
    // Those of them, and of those under way, that nobody waits for.
    std::list<std::unique_ptr<PendingPut>> pending;
    Instant due;  // When what is held back leaves.
    std::optional<Seen> seen;
    bool led = false;  // Somebody takes changes out of it, and looks again afterwards.
  };
  struct Due {
    std::uint64_t lane = 0;
    Instant at;
    friend bool operator>(const Due& a, const Due& b) { return a.at > b.at; }
  };
  // Puts of one key that have not left are all in one lane, whatever the table grows to.
  struct PendingKey {
    std::uint64_t lane = 0;
    std::uint32_t puts = 0;
  };
  // Resumes who awaits it when so many have ended.
  struct Countdown {
    std::size_t left = 0;
    std::coroutine_handle<> waiter = nullptr;
    void one_ended() {
      if (--left == 0 && waiter) waiter.resume();
    }
    bool await_ready() const noexcept { return left == 0; }
    void await_suspend(std::coroutine_handle<> handle) noexcept { waiter = handle; }
    void await_resume() const noexcept {}
  };
  struct InLane {
    Change& change;
    bool await_ready() const noexcept { return change.done; }
    void await_suspend(std::coroutine_handle<> waiter) const noexcept { change.waiter = waiter; }
    void await_resume() const noexcept {}
  };
  // A last image of a bucket that was changed here.
  struct Kept {
    std::uint64_t name = 0;
    std::uint64_t word = 0;
    std::vector<std::byte> bytes;  // Empty: it is known to be old.
  };

  // ---- table_core.cc
  std::uint64_t hash_of(std::span<const std::byte> key) const;
  remote::RemoteAddress at(std::uint64_t offset) const { return token_.at(offset); }
  // The bucket that counts for `hash`, with its image. Follows moved words.
  Task<Result<Bucket>> load(std::uint64_t hash, Deadline deadline);
  // Word and image of one bucket, whether it is moved or not.
  Task<Result<Bucket>> load_at(ArrayWord array, std::uint64_t index, Deadline deadline);
  // Reads the image that `word` names. kCorrupt: it was replaced.
  Task<Result<void>> load_image(Bucket& bucket, Deadline deadline);
  // Where `hash` is to be looked for after `array` said moved.
  Task<Result<ArrayWord>> after(ArrayWord array, Deadline deadline);
  Task<Result<void>> collect(ArrayWord array, std::uint64_t index, std::vector<ScannedEntry>& out,
                             Deadline deadline);
  Task<void> pause(std::uint32_t attempt);
  Result<void> check_word(const Bucket& bucket) const;

  // ---- table_lanes.cc
  std::uint64_t lane_of(std::uint64_t hash) const;
  // Whether the bucket is one of those that were changed here last.
  bool is_hot(std::uint64_t name) const;
  Task<Result<void>> wait_for_room(Deadline deadline);
  // Takes the put over: it is acknowledged.
  void hold_back(const Change& change, std::uint64_t lane);
  // Whether something in it must not wait longer.
  bool must_leave(const Lane& lane) const;
  // One image's worth of changes. Requires that the caller leads the lane.
  Task<void> lead(std::uint64_t lane);
  // Leads until nothing in the lane must leave, and gives it up.
  Task<void> drain(std::uint64_t lane, Countdown* countdown);
  void start_draining(std::uint64_t lane);
  void give_up_lead(std::uint64_t lane);
  // What follows when changes have been made, or could not be.
  void settle(Lane& lane, std::span<Change* const> changes);
  void look_when_due(std::uint64_t name, const Lane& lane);
  // Sees to it that what is due leaves, while there is something.
  Task<void> sweep();
  // Lanes that nobody leads and that must leave, now led by whoever asked.
  std::vector<std::uint64_t> take_due();
  // Drains lanes that the caller leads, all at once.
  Task<void> leave_together(std::vector<std::uint64_t> names);
  // Reads the words of their buckets in few requests. In order.
  Task<void> see_words(std::span<const std::uint64_t> names);
  Task<Result<void>> wait_until_left(Deadline deadline);
  // The value that was put here last and has not left, if there is one.
  const PendingPut* pending(std::uint64_t hash, std::span<const std::byte> key) const;

  // ---- table_changes.cc
  // Makes all of `changes` in one image, or says to each why not.
  Task<void> apply(std::span<Change* const> changes, std::optional<Seen> seen);
  // False: the bucket is another by now (or may be, if it was not `verified`).
  Task<Result<bool>> try_apply(std::span<Change* const> changes, Bucket& bucket, bool verified,
                               Deadline deadline);
  // The entries of `bucket` with `changes` made, in order, each with a version of its own;
  // fills in their results. Returns the last version: the image's.
  TableVersion edit(const Bucket& bucket, std::span<Change* const> changes,
                    std::vector<EntryView>& entries) const;
  // Writes an image and swaps the bucket's word for it. False: somebody else was first.
  // On success the bucket's old space is ours and `bucket` is the new one.
  Task<Result<bool>> publish(Bucket& bucket, const ImageBuilder& image, Deadline deadline);
  Task<Result<Place>> take_space(std::uint32_t image_class, bool shrinks, Deadline deadline);
  Task<Result<remote::PooledBuffer>> take_buffer(Deadline deadline);
  const Kept* kept(std::uint64_t name);
  // 0: none is kept of the bucket of `hash`.
  std::uint64_t word_of_kept(std::uint64_t hash);
  // The bucket of `hash` as it was when it was last changed here.
  std::optional<Bucket> from_kept(std::uint64_t hash);
  // Whether kept images are up to date often enough to build on them unseen.
  bool trusts_kept() const;
  void learn_freshness(bool was_fresh);
  // The bucket of `hash`, if its word is still what was seen of it and its image is there.
  Task<std::optional<Bucket>> from_seen(std::uint64_t hash, Seen seen, Deadline deadline);
  void keep(const Bucket& bucket, std::span<const std::byte> bytes);
  void forget(std::uint64_t name);
  Task<void> count_entries(std::int64_t more, Deadline deadline);

  // ---- table_giving.cc
  Task<Result<void>> give_back(std::vector<Place> places, Deadline deadline);
  // Takes a magazine's worth of what others gave back; false: there is none to be had.
  Task<Result<bool>> take_given(Deadline deadline);
  // What is more than a front end should keep to itself.
  Task<void> give_excess(Deadline deadline);

  // ---- table_growth.cc
  Task<Result<void>> begin_growth(Deadline deadline);
  // A few buckets, if the table is growing.
  Task<Result<void>> help_growth(std::uint64_t buckets, Deadline deadline);
  Task<Result<void>> split(std::uint64_t index, Deadline deadline);
  Task<Result<bool>> try_split(std::uint64_t index, Deadline deadline);
  // Splits what is left, and makes the next array the current one.
  Task<Result<void>> finish_growth(Deadline deadline);

  const remote::Port port_;
  const RegionToken token_;
  const TableShape shape_;
  const FrontEndOptions options_;
  const std::unique_ptr<remote::BufferPool> pool_;
  remote::VectorIo io_;
  Prng random_;
  TableStats stats_;

  // What was last seen.
  ArrayWord current_;
  ArrayWord next_;                // offset 0: not growing
  std::uint64_t stale_next_ = 0;  // What stands there of a growth that has ended.
  std::uint64_t seen_count_ = 0;
  std::int64_t uncounted_ = 0;  // Entries that we made and have not reported.
  bool can_grow_ = true;        // There was memory for it when we last tried.

  std::optional<fabric::Window> window_;
  std::uint32_t near_finds_ = 0;
  std::vector<std::byte> near_image_;

  TableSpace space_;
  std::unordered_map<std::uint64_t, Lane> lanes_;               // Those with a change waiting or under way.
  std::unordered_map<std::uint64_t, PendingKey> pending_keys_;  // by hash
  // The earliest on top. Some have left before: then the lane has another time, or is gone.
  std::priority_queue<Due, std::vector<Due>, std::greater<>> due_;
  std::size_t pending_ = 0;
  bool sweeping_ = false;
  int background_ = 0;          // So many of our tasks run that no caller waits for.
  int flushing_ = 0;            // So many calls of flush() wait.
  Result<void> first_failure_;  // Of puts that were acknowledged, since the last flush.
  double freshness_ = 1;        // Share of kept images that were the latest, lately.
  std::list<Kept> kept_;        // Last used first.
  std::unordered_map<std::uint64_t, std::list<Kept>::iterator> kept_by_name_;
};

}  // namespace yonder::structures::internal
