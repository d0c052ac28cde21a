#pragma once
// One call of a remote method, as an object that can be waited for or awaited.
//
//   Result<EchoResponse> answer = client.call<Echo>({.number = 7}).wait();      // blocks
//   Result<EchoResponse> answer = co_await client.call<Echo>({.number = 7});    // suspends
//
// A call is sent when it is waited for or awaited, once. It lives in the caller's
// frame, is linked into the client's lists while it is under way, and uses no heap.
//
// Concurrency: the client's thread. Lifetime: must not outlive its client; may be
// destroyed while it is under way, its answer is then dropped.

#include <coroutine>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <utility>

#include "yonder/base/result.h"
#include "yonder/base/time.h"
#include "yonder/rpc/message.h"
#include "yonder/rpc/wire.h"

namespace yonder::rpc {

class Client;
class CallList;

class CallBase {
 public:
  CallBase(const CallBase&) = delete;
  CallBase& operator=(const CallBase&) = delete;

  bool done() const { return state_ == State::kDone; }
  bool idle() const { return state_ == State::kIdle; }

 protected:
  // Writes the request's payload: its length, nullopt if it does not fit.
  using Encode = std::optional<std::size_t> (*)(const CallBase& self, std::span<std::byte> out);
  // Keeps the answer: kOk and the payload, or an error and nothing.
  using Keep = void (*)(CallBase& self, ErrorCode status, std::span<const std::byte> payload);

  CallBase(Client& client, MethodId method, Deadline deadline, Encode encode, Keep keep)
      : client_(client), encode_(encode), keep_(keep), deadline_(deadline), method_(method) {}
  ~CallBase() {
    if (state_ == State::kSent || list_ != nullptr) give_up();
  }

  // Sends and returns when done(): at the deadline at the latest.
  void run();
  bool await(std::coroutine_handle<> waiter);
  // Ready to be started again (call_many uses a call for one request after another).
  void reset() { state_ = State::kIdle; }

  Client& client_;

 private:
  friend class Client;
  friend class CallList;
  enum class State : std::uint8_t { kIdle, kWaiting, kSent, kDone };

  void give_up();
  // Keeps the answer; whoever waits is resumed by resume(), when the client is in
  // order again: it may start calls, or destroy the client.
  void finish(ErrorCode status, std::span<const std::byte> payload) {
    state_ = State::kDone;
    keep_(*this, status, payload);
  }
  void resume() {
    if (waiter_) std::exchange(waiter_, nullptr).resume();
  }

  const Encode encode_;
  const Keep keep_;
  Deadline deadline_;  // Default: the client's timeout, counted from when it matters.
  std::coroutine_handle<> waiter_;
  CallBase* previous_ = nullptr;  // In a CallList.
  CallBase* next_ = nullptr;
  CallList* list_ = nullptr;
  std::uint32_t slot_ = 0;  // kSent: index in the client's table.
  const MethodId method_;
  State state_ = State::kIdle;
};

// Calls in the order in which they came; a call can leave from the middle.
class CallList {
 public:
  bool empty() const { return head_ == nullptr; }
  CallBase* head() const { return head_; }
  static CallBase* next(const CallBase& call) { return call.next_; }

  void push_back(CallBase& call) {
    call.list_ = this;
    call.previous_ = tail_;
    call.next_ = nullptr;
    (tail_ == nullptr ? head_ : tail_->next_) = &call;
    tail_ = &call;
  }
  static void remove(CallBase& call) {
    CallList& list = *std::exchange(call.list_, nullptr);
    (call.previous_ == nullptr ? list.head_ : call.previous_->next_) = call.next_;
    (call.next_ == nullptr ? list.tail_ : call.next_->previous_) = call.previous_;
  }
  static bool contains(const CallBase& call) { return call.list_ != nullptr; }

 private:
  CallBase* head_ = nullptr;
  CallBase* tail_ = nullptr;
};

template <Method M>
class [[nodiscard]] PendingCall final : public CallBase {
 public:
  using Request = typename M::Request;
  using Response = typename M::Response;

  PendingCall(Client& client, Request request, Deadline deadline)
      : CallBase(client, M::kMethod, deadline, &encode, &keep), request_(std::move(request)) {}

  Result<Response> wait() {
    run();
    return std::move(result_);
  }

  bool await_ready() const noexcept { return false; }
  bool await_suspend(std::coroutine_handle<> waiter) { return await(waiter); }
  Result<Response> await_resume() { return std::move(result_); }

 private:
  static std::optional<std::size_t> encode(const CallBase& self, std::span<std::byte> out) {
    return encode_message(static_cast<const PendingCall&>(self).request_, out);
  }
  static void keep(CallBase& self, ErrorCode status, std::span<const std::byte> payload) {
    keep_answer(static_cast<PendingCall&>(self).result_, status, payload);
  }

 public:
  // Shared with call_many().
  static void keep_answer(Result<Response>& result, ErrorCode status, std::span<const std::byte> payload) {
    if (status != ErrorCode::kOk) {
      result = fail(status, "rpc call", M::kMethod.value());
    } else if (!decode_message(payload, result.emplace())) {
      result = fail(ErrorCode::kCorrupt, "rpc call: decode the answer", M::kMethod.value());
    }
  }

 private:
  Request request_;
  Result<Response> result_;
};

// A call whose messages are bytes: the answer is copied into the caller's buffer,
// and the result is its length. For bulk data, and for those who have their own
// encoding.
class [[nodiscard]] RawCall final : public CallBase {
 public:
  // `request` and `answer` are borrowed until the call is done. An answer that is
  // larger than `answer` gives kMessageTooLong.
  RawCall(Client& client, MethodId method, std::span<const std::byte> request, std::span<std::byte> answer,
          Deadline deadline)
      : CallBase(client, method, deadline, &encode, &keep), request_(request), answer_(answer) {}

  Result<std::size_t> wait() {
    run();
    return result_;
  }

  bool await_ready() const noexcept { return false; }
  bool await_suspend(std::coroutine_handle<> waiter) { return await(waiter); }
  Result<std::size_t> await_resume() { return result_; }

 private:
  static std::optional<std::size_t> encode(const CallBase& self, std::span<std::byte> out);
  static void keep(CallBase& self, ErrorCode status, std::span<const std::byte> payload);

  std::span<const std::byte> request_;
  std::span<std::byte> answer_;
  Result<std::size_t> result_ = 0;
};

}  // namespace yonder::rpc
