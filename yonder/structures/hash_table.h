#pragma once
// HashTable: a map from keys to values in remote memory that many front ends share, none
// of which holds data, and which needs no processor at the node.
//
//   HashTable::create(port, token, {});                                  // once
//   auto table = HashTable::open(fabric, port, token).value();
//   table->put(key, value);
//   std::vector<std::byte> value;
//   TableVersion version = table->find(key, value).value();              // kNotFound
//   table->find_many(items);                                             // two trips for all
//
// Implements paper 002, IV-B, with another way to keep entries whole. The table is an
// array of words, one per bucket. A word names the bucket's *image*: all entries of the
// bucket, written once, with a checksum. To change a bucket a front end writes a new image
// into space that is its own and swaps the word, by a compare-and-swap that leaves in the
// same post. Every image is a version; readers of an older one see it whole.
//
//   word       | find                 | change                    | split (growth)
//   -----------+----------------------+---------------------------+--------------------------
//   0          | no such key          | → image                   | → moved
//   image      | reads it             | → next image              | → moved, when both images
//              |                      |                           | of the next array stand
//   moved      | asks the next array  | asks the next array       | –
//
// What holds, by whomever and however many:
//   T1  Every change of a bucket is one compare-and-swap of its word, so all operations on
//       a key are linearizable: changes at the swap, finds at the moment the word is read.
//   T2  Nobody holds a lock. A front end that dies anywhere leaves at most space that is
//       not used again: an image it had not published, and what it had free (T6).
//   T3  Space of an image that was replaced belongs to the front end that replaced it, and
//       is written again by that one only, or by whom it was given to. Who still reads the old
//       image notices by its checksum, and begins again.
//   T4  A word is never the same twice, nor does an image fit any word but its own: both
//       have a tag that counts how often their place was written to, published or not. (It
//       has 21 bits: a front end that is stopped between two of its steps while a place is
//       written to exactly 2^21 times, and then published for the same bucket again, would
//       not notice.)
//   T5  Growth: the words of the next array count for nothing until the old word says
//       moved. Who splits a bucket reads the new words first, then the old one, writes its
//       own two images over what it found, and swaps the old word last: if the old word or
//       a new one changed meanwhile, one of its swaps fails and it begins again. Old arrays
//       are never used for anything else, so a front end that knows an old one only, and
//       sleeps for years, is told "moved".
//
//   T6  Free space of a front end goes back to all when it closes, and when it is more than
//       max_free_bytes: on a stack whose top is changed by compare-and-swap and never the same
//       twice. So what a dead front end takes along is at most that, and its chunk. (Arrays
//       that a table has outgrown are not used again: T5. They are smaller than the present
//       one, together.)
//
// *Consolidation*: changes of one bucket that arrive at a front end while another change of
// that bucket is under way wait for it and then leave as one image, in order. Each is
// acknowledged when its image is published; changes that leave together share the earliest of
// their deadlines. Images of buckets that were changed here are kept. While they mostly prove
// to be the latest, the next change builds on them unseen (the swap tells if that was wrong);
// where several front ends change the same buckets it looks at the word first, which costs
// less than a swap that fails.
//
// *Write-back* (off unless it is asked for; the paper's burst buffer): puts into hot buckets
// return at once, with version 0, and leave when there are `together` of them in a bucket or
// the time given has passed; then they wait for their turn, because a front end lets a few
// buckets leave at a time. Hot are the `kept_images` buckets that were changed here last. This
// front end sees its own pending puts, and what it does to a key follows what it did before,
// held back or not; others see them that much later, and never if this front end dies before. A
// put that fails after it was acknowledged is said by the next flush(). At most kMaxPending
// puts are held; a further one waits. Call flush() before the table goes (checked).
//
// Concurrency: the port's thread; its coroutines may use a table at once. Any number of
// tables on one memory, in any processes.
// Lifetime: fabric and port outlive the table; tasks end before it. Spans are borrowed until
// the call, or the awaited task, has ended.

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "yonder/base/result.h"
#include "yonder/base/time.h"
#include "yonder/fabric/fabric.h"
#include "yonder/fabric/types.h"
#include "yonder/remote/port.h"

namespace yonder::structures {

using fabric::RegionToken;
using fabric::Task;

namespace internal {
class TableCore;
struct Change;
}  // namespace internal

// Of an entry: grows with every change of it, also when it was erased in between.
using TableVersion = std::uint64_t;

inline constexpr std::size_t kMaxKeyBytes = 1024;
inline constexpr std::size_t kMaxValueBytes = 16 * 1024;

struct TableOptions {
  std::uint32_t log2_buckets = 10;  // to begin with; 4 to 40
  std::uint64_t hash_seed = 0;      // 0: a random one
};

struct FrontEndOptions {
  // Space is reserved in pieces of so many bytes.
  std::uint32_t chunk_bytes = 64 * 1024;
  // Of space that it freed and could use again; half of it goes back to all beyond that.
  std::uint64_t max_free_bytes = 256 * 1024;
  // Off: every change leaves alone, and no image is kept. For comparison.
  bool consolidate = true;
  // Above 0: puts of hot buckets are acknowledged at once and held back, until there are
  // `together` of them in a bucket, and at most for so long: see Write-back.
  std::uint32_t together = 16;
  Duration write_back{};
  // Of the buckets changed here last: they are the hot ones.
  std::uint32_t kept_images = 4096;
};

inline constexpr std::size_t kMaxPending = 4096;

struct TableStats {
  std::uint64_t changes = 0;     // acknowledged
  std::uint64_t swaps = 0;       // … by so many compare-and-swaps
  std::uint64_t lost_swaps = 0;  // somebody else was first
  std::uint64_t reread = 0;      // images that were replaced while they were read
  std::uint64_t splits = 0;      // buckets split by us
};

struct FindItem {
  std::span<const std::byte> key;
  std::vector<std::byte> value;
  Result<TableVersion> result{TableVersion{}};
};

// Where a scan is. May be stored; stays good while the table grows.
struct ScanCursor {
  std::uint32_t log2 = 0;  // 0: at the beginning
  std::uint64_t bucket = 0;
  bool done = false;
};
struct ScannedEntry {
  std::vector<std::byte> key;
  std::vector<std::byte> value;
  TableVersion version = 0;
};

class HashTable {
 public:
  // Makes a table in memory that is all zero. kInvalidArgument (options, or the token lacks
  // a right, or the memory is too small), kAlreadyExists.
  static Task<Result<void>> async_create(remote::Port port, RegionToken token, TableOptions options,
                                         Deadline deadline = {});
  static Result<void> create(remote::Port port, const RegionToken& token, const TableOptions& options = {},
                             Deadline deadline = {}) {
    return port.run(async_create(port, token, options, deadline));
  }
  // A front end of it. kNotFound, kCorrupt, kInvalidArgument.
  static Task<Result<std::unique_ptr<HashTable>>> async_open(fabric::Fabric& fabric, remote::Port port,
                                                             RegionToken token, FrontEndOptions options = {},
                                                             Deadline deadline = {});
  static Result<std::unique_ptr<HashTable>> open(fabric::Fabric& fabric, remote::Port port,
                                                 const RegionToken& token,
                                                 const FrontEndOptions& options = {},
                                                 Deadline deadline = {}) {
    return port.run(async_open(fabric, port, token, options, deadline));
  }
  ~HashTable();
  HashTable(const HashTable&) = delete;
  HashTable& operator=(const HashTable&) = delete;

  // Errors of all calls, besides those named: kLengthInvalid (key or value beyond the
  // limits; both may be empty), kDeadlineExceeded, kConnectionLost (a change may have taken
  // effect), errors of the fabric.

  // kNotFound.
  Task<Result<TableVersion>> async_find(std::span<const std::byte> key, std::vector<std::byte>& value,
                                        Deadline deadline = {});
  Result<TableVersion> find(std::span<const std::byte> key, std::vector<std::byte>& value,
                            Deadline deadline = {});
  // Each by itself, at moments within the call.
  Task<void> async_find_many(std::span<FindItem> items, Deadline deadline = {});
  void find_many(std::span<FindItem> items, Deadline deadline = {});

  // Changes: the new version. kOutOfMemory (the table's memory is used up),
  // kResourceExhausted (the bucket of the key cannot take more).
  Task<Result<TableVersion>> async_put(std::span<const std::byte> key, std::span<const std::byte> value,
                                       Deadline deadline = {});
  Result<TableVersion> put(std::span<const std::byte> key, std::span<const std::byte> value,
                           Deadline deadline = {});
  // kAlreadyExists.
  Task<Result<TableVersion>> async_insert(std::span<const std::byte> key, std::span<const std::byte> value,
                                          Deadline deadline = {});
  Result<TableVersion> insert(std::span<const std::byte> key, std::span<const std::byte> value,
                              Deadline deadline = {});
  // kNotFound.
  Task<Result<TableVersion>> async_update(std::span<const std::byte> key, std::span<const std::byte> value,
                                          Deadline deadline = {});
  Result<TableVersion> update(std::span<const std::byte> key, std::span<const std::byte> value,
                              Deadline deadline = {});
  // kNotFound, kVersionMismatch.
  Task<Result<TableVersion>> async_update_if(std::span<const std::byte> key, TableVersion expected,
                                             std::span<const std::byte> value, Deadline deadline = {});
  Result<TableVersion> update_if(std::span<const std::byte> key, TableVersion expected,
                                 std::span<const std::byte> value, Deadline deadline = {});
  // kNotFound.
  Task<Result<TableVersion>> async_erase(std::span<const std::byte> key, Deadline deadline = {});
  Result<TableVersion> erase(std::span<const std::byte> key, Deadline deadline = {});

  // Ends when every put that was acknowledged before has left; the error of the first one
  // that could not, since the last flush(). kDeadlineExceeded: some have neither left nor
  // failed yet, and the table must not go before another flush() said what became of them.
  Task<Result<void>> async_flush(Deadline deadline = {});
  Result<void> flush(Deadline deadline = {});

  // Before the table goes: flush(), and space that was reserved and is not used goes back to
  // all. Without it that is lost (T6). What comes after it reserves space again.
  Task<Result<void>> async_close(Deadline deadline = {});
  Result<void> close(Deadline deadline = {});

  // The entries of some more buckets. An entry that is there all the while is given exactly
  // once, one that is not at most once.
  Task<Result<std::vector<ScannedEntry>>> async_scan(ScanCursor& cursor, Deadline deadline = {});
  Result<std::vector<ScannedEntry>> scan(ScanCursor& cursor, Deadline deadline = {});

  // Entries, about: front ends report in dozens.
  Task<Result<std::uint64_t>> async_size(Deadline deadline = {});
  Result<std::uint64_t> size(Deadline deadline = {});
  // Doubles the buckets, now and here. Happens by itself, bit by bit, as entries come.
  Task<Result<void>> async_grow(Deadline deadline = {});
  Result<void> grow(Deadline deadline = {});

  const TableStats& stats() const;

 private:
  explicit HashTable(std::unique_ptr<internal::TableCore> core);
  Task<Result<TableVersion>> change(const internal::Change& change);

  const std::unique_ptr<internal::TableCore> core_;
};

}  // namespace yonder::structures
