#pragma once
// SlotStore: the far side of a heap. Memory of a memory node, in slots of one page, that
// many threads of this process read and write one-sidedly.
//
//   auto store = SlotStore::open({.node = "tcp://node-1:7400", .bytes = Bytes(64 << 30)});
//   store->read(frame, slot_offset);                        // blocks
//   store->write_many(victims);                             // one post for all of them
//   store->start(reads);  …  store->poll();                 // read ahead, without waiting
//
// Without a node it lends memory of this process to itself over `shm`: one machine needs
// no configuration, and with a link model (`link = "model=rdma100g"`) it is as far away
// as a network would make it.
//
// A fabric's queue belongs to one thread at a time; a heap's threads come and go. So the
// store has a few *lanes*, each a connection with its queue behind a lock: a thread takes
// its own lane, or another that is free. Holding one lasts as long as the operation.
//
// What the far side has lost is lost: a node that was replaced answers kServerReplaced or
// kUnknownKey for ever. A node that is away answers after the timeout (kDeadlineExceeded,
// kConnectionLost); the lanes reconnect by themselves.
//
// Concurrency: any thread. In the steady state nothing is allocated; a lane's first calls do, with
// the process's own allocator, so a synchronous signal handler may call read, read_many and
// write_many if it cannot have interrupted that one.
// Lifetime: buffers are borrowed until the call has returned, or an AsyncRead was told;
// the destructor ends what is under way.

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "yonder/base/id.h"
#include "yonder/base/result.h"
#include "yonder/base/time.h"
#include "yonder/client/extent_session.h"
#include "yonder/fabric/fabric.h"
#include "yonder/fabric/scheduler.h"
#include "yonder/os/mapping.h"
#include "yonder/os/memfd.h"
#include "yonder/remote/buffer_pool.h"
#include "yonder/remote/vector_io.h"
#include "yonder/sync/spin_lock.h"

namespace yonder::heap {

inline constexpr std::size_t kPageBytes = 4096;

struct SlotStoreOptions {
  std::string node;    // Where yonderd listens; empty: memory of this process.
  std::string link;    // Of the embedded store, such as "model=rdma100g": all its memory is then pinned.
  std::string name;    // Of the extent on the node; empty: a random one.
  bool adopt = false;  // An extent of that name which is there already is used, whatever is in it.
  Bytes bytes{0};      // How much; whole pages.
  std::uint32_t lanes = 4;
  Duration timeout = std::chrono::seconds(5);  // Of one operation.
};

// Bytes of this process against bytes of the store.
struct Transfer {
  std::byte* local = nullptr;
  std::uint32_t bytes = 0;
  std::uint64_t offset = 0;  // In the store.
};

// A read that nobody waits for. Lives where its owner wants until on_done() was called:
// from inside poll() or any other call of the store, in whatever thread makes it.
class AsyncRead : private fabric::Operation {
 public:
  AsyncRead() : Operation(&AsyncRead::done) {}
  AsyncRead(const AsyncRead&) = delete;
  AsyncRead& operator=(const AsyncRead&) = delete;

  virtual ~AsyncRead() = default;

  Transfer transfer;

 protected:
  virtual void on_done(const Result<void>& result) = 0;

 private:
  friend class SlotStore;
  static void done(Operation& self, const fabric::Completion& completion);
};

class SlotStore {
 public:
  // Errors: kInvalidArgument (no bytes, no lanes), kOutOfMemory (the node's limit, or this
  // machine's), and those of connecting.
  static Result<std::unique_ptr<SlotStore>> open(const SlotStoreOptions& options);
  ~SlotStore();
  SlotStore(const SlotStore&) = delete;
  SlotStore& operator=(const SlotStore&) = delete;

  std::uint64_t bytes() const { return token_.length; }
  // Whether a child made by fork() can read here, too: memory of this process is shared
  // with it, a connection is not.
  bool is_shared_with_children() const { return memfd_.has_value(); }

  // Gives the extent back to the node before the store ends: transfers fail from now on.
  void give_back() YONDER_NO_THREAD_SAFETY_ANALYSIS;

  // Memory that transfers will come from and go to, so that a NIC can use it in place.
  // Elsewhere nothing happens. Once, before the first transfer.
  Result<void> use_memory(std::span<std::byte> memory);

  // Errors of all transfers: kDeadlineExceeded, kConnectionLost, kOutOfBounds, and what the
  // node answers. After a failed write each slot has its old or new bytes, or parts of both.
  Result<void> read(const Transfer& transfer) { return read_many({&transfer, 1}); }
  Result<void> read_many(std::span<const Transfer> transfers);
  Result<void> write_many(std::span<const Transfer> transfers);

  // Where the bytes at `offset`, and those that follow, are in this process; null if they are
  // elsewhere, or as far away as a model of a link makes them.
  const std::byte* in_place(std::uint64_t offset) const {
    return is_in_place_ ? memory_.data() + offset : nullptr;
  }

  // Starts reads, in order, and returns how many: at most as many as the lane has room for.
  std::size_t start(std::span<AsyncRead* const> reads) YONDER_NO_THREAD_SAFETY_ANALYSIS;
  // Makes progress for whatever was started. Never waits.
  void poll() YONDER_NO_THREAD_SAFETY_ANALYSIS;

 private:
  struct Lane {
    sync::SpinLock lock;
    std::unique_ptr<fabric::CompletionQueue> queue;
    std::unique_ptr<fabric::Scheduler> scheduler;
    std::unique_ptr<client::ExtentSession> session;  // With a node…
    std::unique_ptr<fabric::Endpoint> own_endpoint;  // …or without.
    std::unique_ptr<remote::BufferPool> pool;        // What `vectors` needs.
    std::unique_ptr<remote::VectorIo> vectors;
    std::vector<remote::VectorPiece> pieces;  // Of the call that holds `lock`.
    fabric::Endpoint& endpoint() { return session ? session->endpoint() : *own_endpoint; }
  };

  SlotStore() = default;
  Result<void> open_embedded(const SlotStoreOptions& options);
  Result<void> open_node(const SlotStoreOptions& options);
  // A lane learns where the memory is at its first transfer, from a thread that a child made
  // by fork() does not have: so each has had one.
  Result<void> learn_region();
  Result<std::unique_ptr<Lane>> make_lane();
  Result<void> add_lane(std::unique_ptr<Lane> lane);
  // The caller unlocks the lane. Not analysed: which lock it is, is known at run time only.
  Lane& take_lane() YONDER_NO_THREAD_SAFETY_ANALYSIS;
  fabric::LocalPiece piece(const Transfer& transfer) const;
  Result<void> move(fabric::Op op, std::span<const Transfer> transfers) YONDER_NO_THREAD_SAFETY_ANALYSIS;
  Result<void> move_one(Lane& lane, fabric::Op op, const Transfer& transfer);
  Result<void> move_many(Lane& lane, fabric::Op op, std::span<const Transfer> transfers);

  std::unique_ptr<fabric::Fabric> fabric_;
  std::optional<os::Memfd> memfd_;  // Of the embedded store, with what follows.
  os::Mapping memory_;
  bool is_in_place_ = false;
  fabric::Region region_;
  std::unique_ptr<fabric::Listener> listener_;
  fabric::Region local_;  // What use_memory() registered.
  fabric::RegionToken token_;
  Duration timeout_{};
  std::string extent_;
  std::vector<std::unique_ptr<Lane>> lanes_;
};

}  // namespace yonder::heap
