#pragma once
// Fetch: several reads that leave with one doorbell and are awaited together.
//
//   const Result<void> fetched = co_await Fetch(endpoint, requests, deadline);
//
// All fetches of a session share a budget of outstanding reads, which keeps them from
// taking the places that requests need. Who finds it used up waits in line.
// Ends when nothing of it is outstanding any more: then no buffer is in use, also
// if a read failed.
//
// Concurrency: the session's thread. Lifetime: lives in the coroutine that awaits
// it; requests and their buffers live until then.

#include <algorithm>
#include <coroutine>
#include <cstddef>
#include <span>
#include <utility>

#include "yonder/base/result.h"
#include "yonder/fabric/endpoint.h"
#include "yonder/fabric/scheduler.h"
#include "yonder/fabric/types.h"

namespace yonder::client::internal {

class BlockingFetch;
class Fetch;

// Invariant: if a fetch waits in line, reads are outstanding; the end of one starts it.
class ReadBudget {
 public:
  explicit ReadBudget(std::uint32_t reads) : left_(reads) {}
  ReadBudget(const ReadBudget&) = delete;
  ReadBudget& operator=(const ReadBudget&) = delete;

 private:
  friend class BlockingFetch;
  friend class Fetch;
  void push(Fetch& fetch);
  // Posts for those in line, as far as the budget goes.
  void start_waiting();

  std::uint32_t left_;
  Fetch* head_ = nullptr;
  Fetch* tail_ = nullptr;
};

class [[nodiscard]] Fetch : private fabric::Operation {
 public:
  // Fills in user_data, flags and deadline of the requests.
  Fetch(fabric::Endpoint& endpoint, ReadBudget& budget, std::span<fabric::WorkRequest> requests,
        Deadline deadline)
      : Operation(&on_done), endpoint_(endpoint), budget_(budget), rest_(requests) {
    for (fabric::WorkRequest& request : requests) {
      request.user_data = reinterpret_cast<std::uint64_t>(static_cast<Operation*>(this));
      request.flags = fabric::RequestFlags::kOperation;
      request.deadline = deadline;
    }
  }
  Fetch(const Fetch&) = delete;
  Fetch& operator=(const Fetch&) = delete;

  bool await_ready() const noexcept { return false; }
  bool await_suspend(std::coroutine_handle<> waiter) {
    if (budget_.left_ == 0) {
      budget_.push(*this);
    } else {
      post_rest();
      if (outstanding_ == 0) return false;
    }
    waiter_ = waiter;
    return true;
  }
  // The first error, if any.
  Result<void> await_resume() const {
    if (status_ != ErrorCode::kOk) return fail(status_, "read the node's memory");
    return {};
  }

 private:
  friend class ReadBudget;

  void post_rest() {
    const std::size_t count = std::min<std::size_t>(rest_.size(), budget_.left_);
    if (count == 0 || status_ != ErrorCode::kOk) return;
    const Result<std::size_t> posted = endpoint_.post(rest_.first(count));
    if (!posted) {
      status_ = posted.error().code();
      return;
    }
    outstanding_ += *posted;
    budget_.left_ -= static_cast<std::uint32_t>(*posted);
    rest_ = rest_.subspan(*posted);
  }

  void resume_if_over() {
    if (outstanding_ == 0 && waiter_) std::exchange(waiter_, nullptr).resume();
  }

  static void on_done(Operation& self, const fabric::Completion& completion) {
    auto& fetch = static_cast<Fetch&>(self);
    --fetch.outstanding_;
    ++fetch.budget_.left_;
    if (!completion.ok() && fetch.status_ == ErrorCode::kOk) fetch.status_ = completion.status;
    fetch.post_rest();
    fetch.budget_.start_waiting();
    fetch.resume_if_over();
  }

  fabric::Endpoint& endpoint_;
  ReadBudget& budget_;
  std::span<fabric::WorkRequest> rest_;
  std::size_t outstanding_ = 0;
  ErrorCode status_ = ErrorCode::kOk;
  Fetch* next_ = nullptr;  // In the budget's line.
  std::coroutine_handle<> waiter_;
};

// The same for a caller that blocks: no coroutine, and no place in the line.
class BlockingFetch : private fabric::Operation {
 public:
  BlockingFetch(fabric::Endpoint& endpoint, ReadBudget& budget, std::span<fabric::WorkRequest> requests,
                Deadline deadline)
      : Operation(&on_done), endpoint_(endpoint), budget_(budget), requests_(requests) {
    for (fabric::WorkRequest& request : requests) {
      request.user_data = reinterpret_cast<std::uint64_t>(static_cast<Operation*>(this));
      request.flags = fabric::RequestFlags::kOperation;
      request.deadline = deadline;
    }
  }
  BlockingFetch(const BlockingFetch&) = delete;
  BlockingFetch& operator=(const BlockingFetch&) = delete;

  // Calls `meanwhile` when the reads have left. False: a read failed, or could not be posted
  // because of others. Nothing is outstanding any more.
  template <typename Meanwhile>
  bool run(fabric::Scheduler& scheduler, Meanwhile&& meanwhile) {
    if (budget_.left_ < requests_.size()) return false;
    const Result<std::size_t> posted = endpoint_.post(requests_);
    if (!posted) return false;
    outstanding_ = *posted;
    budget_.left_ -= static_cast<std::uint32_t>(*posted);
    meanwhile();
    scheduler.run_until([&] { return outstanding_ == 0; });
    return is_ok_ && *posted == requests_.size();
  }

 private:
  static void on_done(Operation& self, const fabric::Completion& completion) {
    auto& fetch = static_cast<BlockingFetch&>(self);
    --fetch.outstanding_;
    ++fetch.budget_.left_;
    if (!completion.ok()) fetch.is_ok_ = false;
    fetch.budget_.start_waiting();
  }

  fabric::Endpoint& endpoint_;
  ReadBudget& budget_;
  const std::span<fabric::WorkRequest> requests_;
  std::size_t outstanding_ = 0;
  bool is_ok_ = true;
};

inline void ReadBudget::push(Fetch& fetch) {
  (tail_ == nullptr ? head_ : tail_->next_) = &fetch;
  tail_ = &fetch;
}

inline void ReadBudget::start_waiting() {
  while (left_ != 0 && head_ != nullptr) {
    Fetch& fetch = *std::exchange(head_, head_->next_);
    if (head_ == nullptr) tail_ = nullptr;
    fetch.post_rest();
    fetch.resume_if_over();  // It could not be posted.
  }
}

}  // namespace yonder::client::internal
