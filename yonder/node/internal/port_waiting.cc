// Requests that allocate: at the node's limit they wait for memory, and their poller
// goes on (shortage.h).
#include <cstring>
#include <utility>
#include <vector>

#include "yonder/node/internal/port.h"

namespace yonder::node::internal {

using protocol::AllocRequest;
using protocol::Item;
using protocol::ItemHead;
using protocol::PointerMessage;
using rpc::Context;
using rpc::RawResponder;

namespace {

bool is_short_of_memory(const auto& result) { return !result && result.error() == ErrorCode::kOutOfMemory; }

}  // namespace

// Who cannot wait either is answered at once.
void Port::park(std::unique_ptr<WaitingCall> call, Deadline deadline) {
  const ErrorCode code = shortage_->park(call, deadline);
  if (code != ErrorCode::kOk) call->end(code);
}

// ---------------------------------------------------------------- one allocation

class Port::AllocCall final : public WaitingCall {
 public:
  AllocCall(const Port& port, const Context& context, const AllocRequest& request,
            rpc::Responder<protocol::Alloc> responder)
      : port_(port), connection_(context.connection), request_(request), responder_(std::move(responder)) {}

  bool try_answer() override {
    const auto result = port_.alloc(*port_.lanes_->take(connection_.value()), request_);
    if (is_short_of_memory(result)) return false;
    answer(result);
    return true;
  }
  void end(ErrorCode code) override {
    if (try_answer()) return;
    port_.metrics_.alloc.add();
    answer(fail(code, "allocate at the limit"));
  }
  bool is_abandoned() const override { return responder_.is_abandoned(); }

 private:
  void answer(const Result<PointerMessage>& result) {
    if (!result) port_.metrics_.failed.add();
    std::move(responder_).finish(result);
  }

  const Port& port_;
  const fabric::EndpointId connection_;
  const AllocRequest request_;
  rpc::Responder<protocol::Alloc> responder_;
};

void Port::answer_alloc(const Context& context, const AllocRequest& request,
                        rpc::Responder<protocol::Alloc> responder) {
  const auto result = alloc(*lanes_->take(context.connection.value()), request);
  if (is_short_of_memory(result)) {
    return park(std::make_unique<AllocCall>(*this, context, request, std::move(responder)),
                context.deadline());
  }
  if (!result) metrics_.failed.add();
  std::move(responder).finish(result);
}

// ---------------------------------------------------------------- a batch

// Items are executed in their order; the one that finds no memory waits, and those
// behind it with it.
class Port::BatchCall final : public WaitingCall {
 public:
  BatchCall(const Port& port, const Context& context, std::span<const std::byte> request,
            RawResponder responder)
      : port_(port), connection_(context.connection), left_(request), responder_(std::move(responder)) {}

  bool try_answer() override {
    const Lanes::Lease thread = port_.lanes_->take(connection_.value());
    while (!left_.empty()) {
      const Result<bool> ran = run_next(*thread, ErrorCode::kOk);
      if (!ran) return refuse(ran.error().code());
      if (!*ran) return false;
    }
    std::move(responder_).respond(done_);
    return true;
  }
  void end(ErrorCode code) override {
    const Lanes::Lease thread = port_.lanes_->take(connection_.value());
    while (!left_.empty()) {
      if (const Result<bool> ran = run_next(*thread, code); !ran) {
        refuse(ran.error().code());
        return;
      }
    }
    std::move(responder_).respond(done_);
  }
  bool is_abandoned() const override { return responder_.is_abandoned(); }

  // Before the request's bytes go.
  void keep_request() {
    kept_.assign(left_.begin(), left_.end());
    left_ = kept_;
  }

 private:
  bool refuse(ErrorCode code) {
    std::move(responder_).refuse(code);
    return true;
  }

  // False: it found no memory, and `at_limit` is kOk; else that is its answer then.
  // kBadRequest, kMessageTooLong: of the batch.
  Result<bool> run_next(HeapThread& thread, ErrorCode at_limit) {
    const std::span<std::byte> out = responder_.payload();
    ItemHead head;
    if (left_.size() < sizeof head) return fail(ErrorCode::kBadRequest, "batch");
    std::memcpy(&head, left_.data(), sizeof head);
    if (head.bytes > left_.size() - sizeof head) return fail(ErrorCode::kBadRequest, "batch");
    if (out.size() - done_ < sizeof head) return fail(ErrorCode::kMessageTooLong, "answers of a batch");
    auto length = port_.run_item(thread, static_cast<Item>(head.kind), left_.subspan(sizeof head, head.bytes),
                                 out.subspan(done_ + sizeof head));
    if (is_short_of_memory(length)) {
      if (at_limit == ErrorCode::kOk) return false;
      port_.metrics_.alloc.add();
      length = fail(at_limit, "allocate at the limit");
    }
    left_ = left_.subspan(sizeof head + head.bytes);
    if (!length) port_.metrics_.failed.add();
    const ItemHead answer{.kind = static_cast<std::uint32_t>(length ? ErrorCode::kOk : length.error().code()),
                          .bytes = length ? static_cast<std::uint32_t>(*length) : 0};
    std::memcpy(out.data() + done_, &answer, sizeof answer);
    done_ += sizeof answer + answer.bytes;
    return true;
  }

  const Port& port_;
  const fabric::EndpointId connection_;
  std::span<const std::byte> left_;  // Of the request.
  std::size_t done_ = 0;             // Of the answer.
  RawResponder responder_;
  std::vector<std::byte> kept_;
};

void Port::answer_batch(const Context& context, std::span<const std::byte> request, RawResponder responder) {
  BatchCall call(*this, context, request, std::move(responder));
  if (call.try_answer()) return;
  call.keep_request();
  park(std::make_unique<BatchCall>(std::move(call)), context.deadline());
}

}  // namespace yonder::node::internal
