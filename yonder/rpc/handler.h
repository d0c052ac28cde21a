#pragma once
// What a server's handlers see: the context of a request, and the responder for
// those who answer later.
//
//   server.handle<Echo>([](const Context& context, const EchoRequest& request) -> Result<EchoResponse> {
//     return EchoResponse{.number = request.number};
//   });
//   server.handle<Lock>([&](const Context& context, const LockRequest& request, Responder<Lock> responder) {
//     waiting.push_back(std::move(responder));            // … later: std::move(responder).respond({})
//   });
//
// Concurrency: handlers of inline methods run on the poller of their connection,
// several pollers at once if there are several; handlers of worker methods on any
// worker. A responder may be used on any thread of a server that has pollers, and
// on the driving thread of one that is driven.
// Lifetime: views in a decoded request live until the handler returns. Every
// responder is answered or gone before its server is.

#include <cstddef>
#include <cstdint>
#include <functional>
#include <span>
#include <type_traits>
#include <utility>

#include "yonder/base/id.h"
#include "yonder/base/result.h"
#include "yonder/base/time.h"
#include "yonder/fabric/types.h"
#include "yonder/rpc/message.h"

namespace yonder::rpc {

class Exchange;

// On whose behalf, and until when.
class Context {
 public:
  MethodId method{0};
  TenantId tenant{0};
  Epoch epoch{0};  // never older than the server's, unless the method takes any
  fabric::EndpointId connection{0};

  // When the client stops waiting; never() if it does not say. Reads the clock
  // for an inline method, which is why it is not simply a field.
  Deadline deadline() const {
    if (!deadline_.is_default()) return deadline_;
    if (budget_us_ == kNoBudget) return Deadline::never();
    return Deadline::after(*clock_, std::chrono::microseconds(budget_us_));
  }

 private:
  friend class Poller;
  friend class WorkQueue;
  // From here on the time counts: the request will wait.
  void fix_deadline() { deadline_ = deadline(); }

  Deadline deadline_;
  std::uint32_t budget_us_ = kNoBudget;
  const Clock* clock_ = nullptr;
};

// The obligation to answer one request, exactly once. Move-only; one that is
// dropped answers kHandlerFailed, so a client never waits for a forgotten request.
class RawResponder {
 public:
  explicit RawResponder(Exchange& exchange) : exchange_(&exchange) {}
  RawResponder(RawResponder&& other) noexcept : exchange_(std::exchange(other.exchange_, nullptr)) {}
  RawResponder& operator=(RawResponder&& other) noexcept {
    std::swap(exchange_, other.exchange_);
    return *this;
  }
  ~RawResponder();

  // Where the answer's payload may be written, before respond(). As large as the
  // server's and the client's bound allow.
  std::span<std::byte> payload() const;
  // Whether the client is gone, as far as the server knows: nobody would get the answer.
  bool is_abandoned() const;
  // Answers with the first `bytes` of payload().
  void respond(std::size_t bytes) &&;
  // Answers with an error. Requires code != kOk.
  void refuse(ErrorCode code) &&;

 private:
  Exchange* exchange_;
};

template <Method M>
class Responder {
 public:
  explicit Responder(RawResponder raw) : raw_(std::move(raw)) {}

  // kMessageTooLong goes to the client if the answer exceeds a bound.
  void respond(const typename M::Response& response) && {
    const std::optional<std::size_t> bytes = encode_message(response, raw_.payload());
    bytes ? std::move(raw_).respond(*bytes) : std::move(raw_).refuse(ErrorCode::kMessageTooLong);
  }
  void refuse(ErrorCode code) && { std::move(raw_).refuse(code); }
  bool is_abandoned() const { return raw_.is_abandoned(); }
  void finish(const Result<typename M::Response>& result) && {
    result ? std::move(*this).respond(*result) : std::move(*this).refuse(result.error().code());
  }

 private:
  RawResponder raw_;
};

// A handler without types: what registration makes of all the others. It runs on
// several threads at once, hence const.
using Handler = std::move_only_function<void(const Context&, std::span<const std::byte> request,
                                             RawResponder responder) const>;

// Wraps a typed handler: decodes, calls, answers.
template <Method M, typename F>
Handler make_handler(F handler) {
  using Request = typename M::Request;
  using Response = typename M::Response;
  return [handler = std::move(handler)](const Context& context, std::span<const std::byte> bytes,
                                        RawResponder raw) {
    Responder<M> responder(std::move(raw));
    Request request;
    if (!decode_message(bytes, request)) return std::move(responder).refuse(ErrorCode::kBadRequest);
    if constexpr (std::is_invocable_v<const F&, const Context&, const Request&, Responder<M>>) {
      handler(context, request, std::move(responder));
    } else {
      static_assert(std::is_invocable_r_v<Result<Response>, const F&, const Context&, const Request&>,
                    "a handler takes (const Context&, const Request&) and returns Result<Response>, "
                    "or takes a Responder<M> as well; it is called through a const reference");
      std::move(responder).finish(handler(context, request));
    }
  };
}

}  // namespace yonder::rpc
