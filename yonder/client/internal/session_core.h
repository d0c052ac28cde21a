#pragma once
// SessionCore: the parts of a session, and the coroutines that its calls are.
//
// Five files: session_core.cc (the connection and what the client knows of the
// node), session_reads.cc (one-sided reads), session_scans.cc (reads of whole frames),
// session_calls.cc (requests), session_batches.cc (many of them at once).
//
// Concurrency and lifetime: session.h.

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "yonder/base/result.h"
#include "yonder/base/time.h"
#include "yonder/client/internal/fetch.h"
#include "yonder/client/internal/near_reader.h"
#include "yonder/client/internal/node_map.h"
#include "yonder/client/internal/one_sided_read.h"
#include "yonder/client/internal/scratch.h"
#include "yonder/client/internal/translations.h"
#include "yonder/client/internal/view_keys.h"
#include "yonder/client/session.h"
#include "yonder/fabric/fabric.h"
#include "yonder/fabric/scheduler.h"
#include "yonder/fabric/task.h"
#include "yonder/node/protocol.h"
#include "yonder/rpc/client.h"

namespace yonder::client::internal {

using fabric::Task;

class SessionCore {
 public:
  explicit SessionCore(const SessionOptions& options)
      : options_(options),
        translations_(options.translations),
        view_keys_(options.translations),
        read_budget_(options.depth) {}
  ~SessionCore();

  Result<void> connect(fabric::Fabric& fabric);
  void close();

  // One-sided. `scan_first`: the pointer is known to be old.
  // What can be done at once, by loads; false: take the long way.
  bool try_near(ObjectPtr& object, std::span<std::byte> out, ObjectVersion& version);
  // Brings near what try_near() will look at.
  void prefetch_near(std::span<const ReadItem> items) const;
  bool is_near() const { return near_.is_open(); }
  Task<Result<ObjectVersion>> direct_read(ObjectPtr& object, std::span<std::byte> out, Deadline deadline,
                                          bool scan_first);
  // The same without a coroutine, as long as nothing but fetches is needed.
  Result<ObjectVersion> direct_read_blocking(ObjectPtr& object, std::span<std::byte> out, Deadline deadline);
  Task<void> direct_read_many(std::span<ReadItem> items, Deadline deadline);
  Task<void> scan_read_many(std::span<ReadItem> items, Deadline deadline);

  // Requests.
  Task<Result<ObjectPtr>> alloc(std::uint32_t bytes, Deadline deadline);
  Task<Result<void>> free(ObjectPtr object, Deadline deadline);
  Task<Result<ObjectVersion>> read(ObjectPtr& object, std::span<std::byte> out, Deadline deadline);
  Task<Result<ObjectVersion>> write(ObjectPtr& object, const ObjectVersion* expected,
                                    std::span<const std::byte> data, Deadline deadline);
  Task<Result<void>> find(ObjectPtr& object, Deadline deadline);
  Task<Result<void>> release(ObjectPtr& object, Deadline deadline);
  Task<void> alloc_many(std::span<AllocItem> items, Deadline deadline);
  Task<void> free_many(std::span<FreeItem> items, Deadline deadline);
  Task<void> read_many(std::span<ReadItem> items, Deadline deadline);
  Task<void> write_many(std::span<WriteItem> items, Deadline deadline);
  Task<void> write_if_version_many(std::span<ConditionalWriteItem> items, Deadline deadline);
  Task<void> find_many(std::span<PointerItem> items, Deadline deadline);
  Task<void> release_many(std::span<PointerItem> items, Deadline deadline);
  // The same without a coroutine, for blocking calls with objects that fit a message.
  bool fits_message(std::size_t bytes) const { return bytes <= max_data_; }
  std::uint32_t max_data() const { return max_data_; }
  Result<ObjectVersion> read_blocking(ObjectPtr& object, std::span<std::byte> out, Deadline deadline);
  Result<ObjectVersion> write_blocking(ObjectPtr& object, const ObjectVersion* expected,
                                       std::span<const std::byte> data, Deadline deadline);

  rpc::Client& rpc() { return *rpc_; }
  fabric::Scheduler& scheduler() { return *scheduler_; }
  const Clock& clock() const { return queue_->clock(); }
  const NodeMap& map() const { return *map_; }
  ScratchPool& scratch() { return scratch_; }
  SessionStats& stats() { return stats_; }
  Deadline or_default(Deadline deadline) const {
    return deadline.or_default(Deadline::after(clock(), options_.timeout));
  }

 private:
  // How many near reads happen between two polls: a connection that was lost is
  // noticed only by polling, and a dead node's memory must not be read for ever.
  static constexpr std::uint32_t kNearReadsPerPoll = 256;
  // How many reads of a node whose memory is not mapped here happen between two looks whether it is:
  // over a network it never will be, and one thing less stands between two reads.
  static constexpr std::uint32_t kReadsPerLook = 1024;
  // Refused keys of one read, after which the node's memory is another.
  static constexpr std::uint32_t kMaxRefusals = 2;
  // Fetches of one read without a coroutine: the guess, and the place that the table names.
  static constexpr int kBlockingRounds = 2;
  // The longest fetch of one read.
  static constexpr std::uint32_t kMinDepth = 4;
  // What stands in front of an object's bytes in a message, at most.
  static constexpr std::uint32_t kMaxHeadBytes =
      sizeof(node::protocol::ItemHead) + node::protocol::WriteRequest::kHeadBytes;

  Task<Result<void>> describe(Deadline deadline);
  // The connection was lost since the node was described, so its keys may be others.
  bool is_outdated() const { return rpc_->stats().losses != described_after_; }
  // What a read with such keys is told.
  static bool says_outdated(const Error& error) {
    return error == ErrorCode::kUnknownKey || error == ErrorCode::kRegionRevoked;
  }
  Task<Result<void>> learn_superblocks(Deadline deadline);
  // The object is not where its pointer says: corrects `object`, or says why not.
  Task<Result<void>> correct(ObjectPtr& object, Translation seen, Deadline deadline);
  // Looks for the object in the frame that holds its block. False: not found.
  Task<Result<bool>> scan(ObjectPtr& object, Translation seen, Deadline deadline);
  // Corrects the pointer by reading the whole frame, if the object is there.
  Task<Result<void>> find_by_scan(ObjectPtr& object, Deadline deadline);
  // The same for many: every frame once. Pointers whose objects are not found stay.
  Task<void> find_by_scan_many(std::span<ReadItem> items, Deadline deadline);
  Task<Result<Translation>> look_up(node::BlockId block, Deadline deadline);
  // What a machine needs besides fetches. An error ends the read.
  Task<Result<void>> serve(OneSidedRead& read, OneSidedRead::Need& need, Deadline deadline);
  Task<Result<ObjectVersion>> run(OneSidedRead& read, OneSidedRead::Need need, ObjectPtr& object,
                                  Deadline deadline);
  Task<Result<ObjectVersion>> read_staged(ObjectPtr& object, std::span<std::byte> out, Deadline deadline);
  Task<Result<ObjectVersion>> write_staged(ObjectPtr& object, const ObjectVersion* expected,
                                           std::span<const std::byte> data, Deadline deadline);
  Task<Result<void>> put_parts(std::uint64_t ticket, std::span<const std::byte> data, Deadline deadline);
  Task<Result<void>> get_parts(std::uint64_t ticket, std::span<std::byte> out, Deadline deadline);
  template <typename ItemType, typename Add, typename Take, typename Alone>
  Task<void> in_batches(std::span<ItemType> items, Deadline deadline, Add add, Take take, Alone alone);
  bool try_near_elsewhere(ObjectPtr& object, std::span<std::byte> out, ObjectVersion& version);
  // After a read that went the long way: looks whether the node's memory is mapped here by now.
  void look_for_windows() {
    if (!options_.use_windows || reads_until_windows_-- != 0) return;
    near_.open_windows(rpc_->endpoint(), *map_);
    reads_until_windows_ = near_.is_open() ? 0 : kReadsPerLook;
  }
  bool must_ask_for(std::size_t bytes) const;
  // A fetch failed in a way that blocks being registered anew explain: `refused` says
  // whether by a key that was not accepted. False: the read has failed.
  bool may_fetch_again(const Error& error, bool& refused) const;
  Result<ObjectVersion> take_read_answer(const Result<std::size_t>& length, std::span<const std::byte> answer,
                                         ObjectPtr& object, std::span<std::byte> out) const;

  const SessionOptions options_;
  std::unique_ptr<fabric::CompletionQueue> own_queue_;
  std::unique_ptr<fabric::Scheduler> own_scheduler_;
  fabric::CompletionQueue* queue_ = nullptr;
  fabric::Scheduler* scheduler_ = nullptr;
  rpc::ClientPtr rpc_;

  std::optional<NodeMap> map_;
  std::uint64_t described_after_ = 0;  // So many losses of the connection.
  std::uint32_t max_data_ = 0;
  Translations translations_;
  ViewKeys view_keys_;
  NearReader near_;
  std::uint32_t reads_until_windows_ = 0;
  ReadBudget read_budget_;
  ScratchPool scratch_;
  std::uint32_t near_reads_until_poll_ = kNearReadsPerPoll;
  SessionStats stats_;
};

}  // namespace yonder::client::internal
