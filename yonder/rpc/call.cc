#include "yonder/rpc/call.h"

#include <cstring>

#include "yonder/base/check.h"
#include "yonder/fabric/completion_queue.h"
#include "yonder/rpc/client.h"

namespace yonder::rpc {

void CallBase::run() {
  YONDER_CHECK(idle(), "a call is waited for once");
  client_.start(*this);
  // The shortest loop there is: how soon an answer is seen depends on it.
  fabric::CompletionQueue& queue = client_.queue();
  // Refused at once. Who calls again and again must hear all the same when the server
  // that is stopping has gone, and another one is there.
  if (done()) [[unlikely]]
    queue.poll({});
  for (std::uint32_t polls = client_.options_.spin_polls; polls > 0 && !done(); --polls) queue.poll({});
  while (!done()) {
    if (!client_.wait_some(deadline_) && !done()) client_.expire(*this);
  }
}

bool CallBase::await(std::coroutine_handle<> waiter) {
  YONDER_CHECK(idle(), "a call is awaited once");
  client_.start(*this);
  if (done()) return false;
  waiter_ = waiter;
  client_.make_deadline_explicit(*this);
  client_.watch_deadline(*this);
  return true;
}

void CallBase::give_up() { client_.forget(*this); }

std::optional<std::size_t> RawCall::encode(const CallBase& self, std::span<std::byte> out) {
  const std::span<const std::byte> request = static_cast<const RawCall&>(self).request_;
  if (request.size() > out.size()) return std::nullopt;
  if (!request.empty()) std::memcpy(out.data(), request.data(), request.size());
  return request.size();
}

void RawCall::keep(CallBase& self, ErrorCode status, std::span<const std::byte> payload) {
  auto& call = static_cast<RawCall&>(self);
  if (status != ErrorCode::kOk) {
    call.result_ = fail(status, "rpc call");
  } else if (payload.size() > call.answer_.size()) {
    call.result_ = fail(ErrorCode::kMessageTooLong, "rpc call: the answer exceeds the caller's buffer",
                        static_cast<std::int64_t>(payload.size()));
  } else {
    if (!payload.empty()) std::memcpy(call.answer_.data(), payload.data(), payload.size());
    call.result_ = payload.size();
  }
}

}  // namespace yonder::rpc
