#pragma once
// Session: a program's connection to one memory node, and the object API.
//
//   auto session = client::Session::connect(fabric, {.address = "tcp://node-1:7400"});
//   ObjectPtr object = (*session)->alloc(100).value();            // 100 zero bytes
//   (*session)->write(object, bytes);
//   (*session)->direct_read(object, buffer);                      // one-sided
//   (*session)->free(object);
//
// Every call comes in three forms:
//   blocking    session.read(object, out)
//   coroutine   co_await session.async_read(object, out)
//   batch       session.read_many(items), session.async_read_many(items)
//
// Pointers are passed by reference where the call may find that the object has
// moved: the pointer then has the new place, and the next call is fast again. The
// identity never changes (same_object), except by release_ptr().
//
// Reads: read() asks the node. direct_read() copies the object out of the node's
// memory without the node's processor, and proves that the copy is the object's
// value at a moment within the call (internal/one_sided_read.h has the argument, per
// validator and provider): never torn, never older than a write that was
// acknowledged before the call. An object that is not where the pointer says is
// found by the session's Correction. scan_read() is direct_read() for a pointer that
// is known to be old: it reads the whole frame at once.
//
// What is guaranteed
//   C1  All reads and writes of one object, by any session, blocking or not,
//       one-sided or not, are linearizable.
//   C2  A pointer that names no live object of this node gives kNoSuchObject,
//       kForeignPointer or kInvalidArgument, and nothing else is touched.
//   C3  A large object (one that does not fit a message) is written at one moment,
//       like a small one: its bytes are gathered at the node first.
//   C4  Every call ends at its deadline at the latest (default: SessionOptions'
//       timeout). A write that failed with kDeadlineExceeded or kConnectionLost may
//       have taken effect; all other errors mean that it has not.
//   C5  A node that was restarted is the same one if it has the objects of before (its
//       keeper held them): the session finds it again by itself, and pointers stay
//       valid. If it has not, every call fails with kServerReplaced, for ever: no
//       pointer of before is shown to it.
// On an error the output of a read is unspecified.
//
// Errors of all calls, besides C2's: kOutOfBounds (more bytes than the object has),
// kDeadlineExceeded, kConnectionLost, kStopping, kOverloaded, kClosed.
//
// Concurrency: one thread at a time, the one that uses the queue. Blocking calls must
// not be made inside a coroutine of the same scheduler.
// Lifetime: the fabric (and queue and scheduler, if they are given) outlive the
// session. Everything passed by reference, span or pointer lives until the call, or
// the awaited task, has ended; tasks end before the session.

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>

#include "yonder/base/result.h"
#include "yonder/base/time.h"
#include "yonder/fabric/fabric.h"
#include "yonder/fabric/scheduler.h"
#include "yonder/fabric/task.h"
#include "yonder/node/heap.h"
#include "yonder/node/object_ptr.h"

namespace yonder::client {

using node::ObjectPtr;
using node::ObjectVersion;

namespace internal {
class SessionCore;
}

// What direct_read() does when an object is not where its pointer says.
enum class Correction : std::uint8_t {
  kRpc,   // ask the node
  kScan,  // read the object's frame and look for it; ask the node if that fails
  kTell,  // kObjectMoved: the caller decides
};

struct SessionOptions {
  std::string address;
  fabric::Identity identity;
  Correction correction = Correction::kRpc;
  Duration timeout = std::chrono::seconds(5);  // of calls that give no deadline
  Duration connect_timeout = std::chrono::seconds(5);
  std::uint32_t max_outstanding = 32;     // requests
  std::uint32_t max_message = 32 * 1024;  // bytes of an answer; larger objects come in parts
  std::uint32_t depth = 128;              // one-sided reads outstanding, at least 4
  std::size_t translations = 16 * 1024;   // words of the block table that are remembered
  // Off: one-sided reads are requests of the fabric even where the node's memory is
  // mapped here.
  bool use_windows = true;
  // To share with other sessions of the thread; null: the session's own.
  fabric::CompletionQueue* queue = nullptr;
  fabric::Scheduler* scheduler = nullptr;  // Of that queue.
};

struct SessionStats {
  std::uint64_t direct_reads = 0;  // that succeeded
  std::uint64_t near_reads = 0;    // … of these, by loads from a window
  std::uint64_t retries = 0;       // copies that were made again: torn, being written, an old translation
  std::uint64_t corrections = 0;   // objects that were not where their pointer said
  std::uint64_t scans = 0;         // frames read to find one
  // Reads that were done again because their connection broke: the node had registered
  // their block anew.
  std::uint64_t lost_connections = 0;
};

// One element of a batch: the pointer is corrected in place, the result filled in.
struct ReadItem {
  ObjectPtr object;
  std::span<std::byte> out;
  Result<ObjectVersion> result{ObjectVersion()};
};
struct WriteItem {
  ObjectPtr object;
  std::span<const std::byte> data;
  Result<ObjectVersion> result{ObjectVersion()};
};
struct ConditionalWriteItem {
  ObjectPtr object;
  ObjectVersion expected;
  std::span<const std::byte> data;
  Result<ObjectVersion> result{ObjectVersion()};
};
struct PointerItem {
  ObjectPtr object;
  Result<void> result;
};
struct AllocItem {
  std::uint32_t bytes = 0;
  Result<ObjectPtr> result{ObjectPtr()};
};
struct FreeItem {
  ObjectPtr object;
  Result<void> result;
};

class Session {
 public:
  // kAddressInvalid, kConnectionRefused, kDeadlineExceeded, kProtocolMismatch;
  // kUnknownMethod if the server is no memory node; kInvalidArgument for a scheduler
  // without its queue.
  static Result<std::unique_ptr<Session>> connect(fabric::Fabric& fabric, const SessionOptions& options);
  ~Session();
  Session(const Session&) = delete;
  Session& operator=(const Session&) = delete;

  // A new object of `bytes` zero bytes. kInvalidArgument: 0, or above 64 MiB;
  // kOutOfMemory: the node's limit, after compaction.
  Result<ObjectPtr> alloc(std::uint32_t bytes, Deadline deadline = {});
  Result<void> free(ObjectPtr object, Deadline deadline = {});
  // The object's first out.size() bytes, and their version.
  Result<ObjectVersion> read(ObjectPtr& object, std::span<std::byte> out, Deadline deadline = {});
  Result<ObjectVersion> direct_read(ObjectPtr& object, std::span<std::byte> out, Deadline deadline = {});
  Result<ObjectVersion> scan_read(ObjectPtr& object, std::span<std::byte> out, Deadline deadline = {});
  // Replaces the object's first bytes; returns the new version.
  Result<ObjectVersion> write(ObjectPtr& object, std::span<const std::byte> data, Deadline deadline = {});
  // The same if the object still has that version, else kVersionMismatch.
  Result<ObjectVersion> write_if_version(ObjectPtr& object, ObjectVersion expected,
                                         std::span<const std::byte> data, Deadline deadline = {});
  // Corrects the pointer.
  Result<void> find(ObjectPtr& object, Deadline deadline = {});
  // Gives the object a new identity where it is now, so that the node can use its old
  // block's id again (CoRM 3.3). `object` is the only valid pointer afterwards.
  Result<void> release_ptr(ObjectPtr& object, Deadline deadline = {});

  // As many requests as needed, as few as possible; not one moment for all.
  void alloc_many(std::span<AllocItem> items, Deadline deadline = {});
  void free_many(std::span<FreeItem> items, Deadline deadline = {});
  void read_many(std::span<ReadItem> items, Deadline deadline = {});
  void direct_read_many(std::span<ReadItem> items, Deadline deadline = {});
  void write_many(std::span<WriteItem> items, Deadline deadline = {});
  void write_if_version_many(std::span<ConditionalWriteItem> items, Deadline deadline = {});
  void find_many(std::span<PointerItem> items, Deadline deadline = {});
  void release_ptr_many(std::span<PointerItem> items, Deadline deadline = {});
  // Every frame is read once, for all objects that are looked for in it.
  void scan_read_many(std::span<ReadItem> items, Deadline deadline = {});

  fabric::Task<Result<ObjectPtr>> async_alloc(std::uint32_t bytes, Deadline deadline = {});
  fabric::Task<Result<void>> async_free(ObjectPtr object, Deadline deadline = {});
  fabric::Task<Result<ObjectVersion>> async_read(ObjectPtr& object, std::span<std::byte> out,
                                                 Deadline deadline = {});
  fabric::Task<Result<ObjectVersion>> async_direct_read(ObjectPtr& object, std::span<std::byte> out,
                                                        Deadline deadline = {});
  fabric::Task<Result<ObjectVersion>> async_scan_read(ObjectPtr& object, std::span<std::byte> out,
                                                      Deadline deadline = {});
  fabric::Task<Result<ObjectVersion>> async_write(ObjectPtr& object, std::span<const std::byte> data,
                                                  Deadline deadline = {});
  fabric::Task<Result<ObjectVersion>> async_write_if_version(ObjectPtr& object, ObjectVersion expected,
                                                             std::span<const std::byte> data,
                                                             Deadline deadline = {});
  fabric::Task<Result<void>> async_find(ObjectPtr& object, Deadline deadline = {});
  fabric::Task<Result<void>> async_release_ptr(ObjectPtr& object, Deadline deadline = {});
  fabric::Task<void> async_alloc_many(std::span<AllocItem> items, Deadline deadline = {});
  fabric::Task<void> async_free_many(std::span<FreeItem> items, Deadline deadline = {});
  fabric::Task<void> async_read_many(std::span<ReadItem> items, Deadline deadline = {});
  fabric::Task<void> async_direct_read_many(std::span<ReadItem> items, Deadline deadline = {});
  fabric::Task<void> async_write_many(std::span<WriteItem> items, Deadline deadline = {});
  fabric::Task<void> async_write_if_version_many(std::span<ConditionalWriteItem> items,
                                                 Deadline deadline = {});
  fabric::Task<void> async_find_many(std::span<PointerItem> items, Deadline deadline = {});
  fabric::Task<void> async_release_ptr_many(std::span<PointerItem> items, Deadline deadline = {});
  fabric::Task<void> async_scan_read_many(std::span<ReadItem> items, Deadline deadline = {});

  // Of the session's scheduler: to spawn and run tasks.
  fabric::Scheduler& scheduler();
  const Clock& clock() const;
  node::NodeId node() const;
  node::Validator validator() const;
  // Bytes of an object that fit one message.
  std::uint32_t max_data() const;
  const SessionStats& stats() const;

  // Ends calls that are under way with kCancelled. Idempotent.
  void close();

 private:
  explicit Session(std::unique_ptr<internal::SessionCore> core);
  const std::unique_ptr<internal::SessionCore> core_;
};

}  // namespace yonder::client
