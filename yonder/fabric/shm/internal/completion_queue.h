#pragma once
// The completion queue of shm: a ring of finished requests, and the engine that
// looks for messages and answers.
//
// Direct operations are finished when post() returns; their completions wait
// here. Everything else is progress(), made by poll() and wait(): messages of the
// peers (all rings if there are few, by the board if many), requests that wait
// for something, news in the mailbox, completions that a link model holds back.
//
// Sleeping, with the producers in other processes (fence.h):
//   S1 sleeping := 1   S2 heavy fence   S3 look at everything   S4 sleep on the eventfd
//   a producer: P1 publish  P2 light fence  P3 sleeping == 1 ? ring the eventfd
// I1 If S3 misses P1, then P3 sees S1 and rings; so no wake-up is lost.
// The eventfd is shared by all peers of the queue; one that steals its rings can
// delay others by kLongestNap at most.
//
// Concurrency and lifetime: completion_queue.h of the fabric. reserve(), the
// board and the mailbox are also used by the service thread.

#include <cstddef>
#include <cstring>
#include <memory>
#include <mutex>
#include <vector>

#include "yonder/fabric/completion_queue.h"
#include "yonder/fabric/shm/internal/board.h"
#include "yonder/fabric/shm/internal/fence.h"
#include "yonder/fabric/shm/internal/mailbox.h"
#include "yonder/fabric/shm/internal/state_file.h"
#include "yonder/os/steady_clock.h"

namespace yonder::fabric::shm {

class ShmEndpoint;

// A completion in the queue, and whose it is.
//
// It is often read right after it was written, while the stores of a large copy
// before it still wait for memory. A processor hands such a value from store to
// load only if one store covers the whole load; otherwise the load waits for all
// of them (measured: 60 ns of 430 for a read of 1 KiB). So an entry is written
// and read in the same three pieces of 16 bytes, the width compilers also copy a
// Completion with.
class alignas(16) ReadyEntry {
 public:
  void set(const Completion& completion, ShmEndpoint* owner) {
    const std::uint64_t sizes = completion.length | std::uint64_t{completion.immediate} << 32;
    const std::uint64_t kinds = static_cast<std::uint64_t>(completion.status) |
                                static_cast<std::uint64_t>(completion.op) << 16 |
                                static_cast<std::uint64_t>(completion.flags) << 24;
    pieces_[0] = Piece{completion.user_data, completion.value};
    pieces_[1] = Piece{completion.endpoint.value(), sizes};
    pieces_[2] = Piece{kinds, reinterpret_cast<std::uint64_t>(owner)};
  }
  void get(Completion& completion) const {
    auto* const out = reinterpret_cast<std::byte*>(&completion);
    std::memcpy(out, &pieces_[0], 16);
    std::memcpy(out + 16, &pieces_[1], 16);
    std::memcpy(out + 32, &pieces_[2], 8);
  }
  // Null once the endpoint is gone.
  ShmEndpoint* owner() const { return reinterpret_cast<ShmEndpoint*>(pieces_[2][1]); }
  void orphan() { pieces_[2] = Piece{pieces_[2][0], 0}; }

 private:
  using Piece = std::uint64_t __attribute__((vector_size(16)));
  Piece pieces_[3];
};
static_assert(sizeof(Completion) == 40 && offsetof(Completion, value) == 8 &&
              offsetof(Completion, endpoint) == 16 && offsetof(Completion, length) == 24 &&
              offsetof(Completion, immediate) == 28 && offsetof(Completion, status) == 32 &&
              offsetof(Completion, op) == 34 && offsetof(Completion, flags) == 35);

class alignas(64) ShmCompletionQueue final : public CompletionQueue {
 public:
  static constexpr Duration kLongestNap = std::chrono::milliseconds(100);

  static Result<std::unique_ptr<CompletionQueue>> create(StateFile& states, const RareFence& fence,
                                                         const CompletionQueueOptions& options);
  ~ShmCompletionQueue() override;

  void wake() override { mailbox_->wake(); }
  const Clock& clock() const override { return clock_; }

  // ------------------------------------------------ any thread
  // Room for one endpoint's completions. kResourceExhausted.
  Result<void> reserve(std::uint32_t completions);
  void unreserve(std::uint32_t completions);
  Result<std::uint32_t> take_entry();
  void give_entry(std::uint32_t entry);
  const std::shared_ptr<Mailbox>& mailbox() const { return mailbox_; }
  const os::Fd& board_fd() const { return board_.fd(); }
  std::uint32_t line() const { return line_; }

  // ------------------------------------------------ the queue's thread
  // There is room: the endpoint has reserved it.
  void push(const Completion& completion, ShmEndpoint* owner) {
    ready_[tail_++ & mask_].set(completion, owner);
  }
  void push_delayed(const Completion& completion, ShmEndpoint* owner, Instant due);
  // Asks for progress on every poll until the endpoint has nothing pending.
  void set_busy(ShmEndpoint& endpoint);
  // Which board entry announces the endpoint's messages.
  void watch(ShmEndpoint& endpoint, std::uint32_t entry);
  // Forgets the endpoint; its completions stay. `reserved` is given back, less
  // what still waits to be polled.
  void detach(ShmEndpoint& endpoint, std::uint32_t reserved);
  // Handles news now (before an endpoint closes).
  void read_mail();

 private:
  struct Delayed {
    Instant due;
    std::uint64_t order;
    ReadyEntry entry;
    // For a heap with the earliest on top.
    friend bool operator<(const Delayed& a, const Delayed& b) {
      return a.due != b.due ? a.due > b.due : a.order > b.order;
    }
  };

  ShmCompletionQueue(StateFile& states, const RareFence& fence, const CompletionQueueOptions& options,
                     std::uint32_t line, Board board, os::EventFd event);

  std::size_t do_poll(std::span<Completion> out) override;
  Result<void> do_wait(Deadline deadline) override;

  std::size_t take_ready(std::span<Completion> out);
  void progress();
  void poll_messages();
  void poll_all_messages();
  void advance_busy();
  void release_due();
  ShmEndpoint* find(EndpointId id) const;
  void nap(Deadline deadline);
  Deadline nap_end(Deadline deadline, Instant now) const;
  bool is_idle() const { return head_ == tail_; }

  StateFile& states_;
  const RareFence& fence_;
  const Duration spin_;
  const std::uint32_t line_;
  os::SteadyClock clock_;
  Board board_;
  const std::shared_ptr<Mailbox> mailbox_;

  // The queue's thread.
  std::vector<ReadyEntry> ready_;
  std::uint32_t mask_;
  std::uint32_t head_ = 0;
  std::uint32_t tail_ = 0;
  std::uint32_t polls_ = 0;
  std::vector<ShmEndpoint*> endpoints_;
  std::vector<ShmEndpoint*> by_entry_;
  std::vector<ShmEndpoint*> busy_;
  std::vector<Delayed> delayed_;
  std::uint64_t delayed_order_ = 0;

  std::mutex mutex_;
  std::uint32_t reserved_ = 0;  // Guarded by mutex_, as are the board's take and give.
};

}  // namespace yonder::fabric::shm
