// The way in: from a completed receive to the handler.

#include "yonder/rpc/internal/poller.h"

namespace yonder::rpc {

void Poller::on_receive(fabric::Operation& op, const fabric::Completion& completion) {
  auto& receive = static_cast<ServerReceive&>(op);
  Poller& poller = polling_now(*receive.core);
  if (!poller.take_request(receive, completion)) poller.repost(receive);
}

// True if the receive is still needed (by a worker).
bool Poller::take_request(ServerReceive& receive, const fabric::Completion& completion) {
  Connection* connection = find_or_adopt(completion.endpoint);
  if (connection == nullptr) [[unlikely]]
    return false;  // Closed a moment ago.
  RequestHeader header;
  const std::span<const std::byte> message(receive.buffer.data, completion.length);
  ErrorCode status = completion.ok() ? read_request(message, header) : ErrorCode::kMalformedFrame;
  // Bytes that are no request, or a request that was not granted: whoever sends
  // that will not be helped by an answer.
  if (status == ErrorCode::kMalformedFrame || connection->credits == 0) [[unlikely]] {
    close(*connection);
    return false;
  }
  --connection->credits;
  requests_seen_.store(requests_seen_.load(std::memory_order_relaxed) + 1, std::memory_order_relaxed);
  const RegisteredMethod* method = nullptr;
  if (status == ErrorCode::kOk) {
    if (header.method < kMaxMethods) method = core_.methods[header.method].get();
    if (method != nullptr) method->count_call();
    status = admit(*connection, header, method);
  }
  if (status != ErrorCode::kOk) [[unlikely]] {
    if (method != nullptr) method->count_error();
    refuse(*connection, header.request_id, status);
    return false;
  }
  return execute(*connection, header, *method, receive, message.subspan(kRequestHeaderBytes));
}

ErrorCode Poller::admit(const Connection& connection, const RequestHeader& header,
                        const RegisteredMethod* method) const {
  // Relaxed: a request that crosses the stop is answered either way.
  if (core_.stopping.load(std::memory_order_relaxed)) return ErrorCode::kStopping;
  if (method == nullptr) return ErrorCode::kUnknownMethod;
  // A connection of tenant 0 (an installation without tenants, or a gateway) may
  // speak for any; every other only for itself.
  if (connection.tenant.value() != 0 && header.tenant != connection.tenant.value())
    return ErrorCode::kTenantDenied;
  // Relaxed: a request that crosses the change of epoch may be either.
  if (header.epoch < core_.epoch.load(std::memory_order_relaxed) && !method->options.any_epoch)
    return ErrorCode::kStaleEpoch;
  return header.budget_us == 0 ? ErrorCode::kDeadlineExceeded : ErrorCode::kOk;
}

bool Poller::execute(Connection& connection, const RequestHeader& header, const RegisteredMethod& method,
                     ServerReceive& receive, std::span<const std::byte> payload) {
  Exchange* exchange = take_exchange(connection);
  if (exchange == nullptr) [[unlikely]] {
    method.count_error();
    refuse(connection, header.request_id, ErrorCode::kOverloaded);
    return false;
  }
  exchange->method = &method;
  take_time(*exchange);
  exchange->request_id = header.request_id;
  exchange->payload_limit = std::min(header.answer_limit(), core_.options.max_response);
  Context context;
  context.method = method.method;
  context.tenant = TenantId{header.tenant};
  context.epoch = Epoch{header.epoch};
  context.connection = connection.endpoint->id();
  context.budget_us_ = header.budget_us;
  context.clock_ = core_.clock;
  if (method.options.run == Run::kInline || core_.options.workers == 0) {
    connection.endpoint->queue().charge(fabric::CpuWork::kRequest, 1, payload.size());
    run_handler(method, context, payload, *exchange);
    return false;
  }
  context.fix_deadline();
  if (core_.work.try_push(
          {.context = context, .exchange = exchange, .receive = &receive, .payload = payload}))
    return true;
  release(*exchange);
  method.count_error();
  refuse(connection, header.request_id, ErrorCode::kOverloaded);
  return false;
}

void Poller::take_time(Exchange& exchange) {
  exchange.started = {};
  if (--until_sample_ != 0) [[likely]]
    return;
  until_sample_ = MethodMetrics::kSampling;
  if (exchange.method->metrics) exchange.started = core_.clock->now();
}

void Poller::repost(ServerReceive& receive) {
  spent_[spent_count_++] = receive.request();
  if (spent_count_ == kRepostBatch) post_spent_receives();
}

void Poller::post_spent_receives() {
  if (spent_count_ == 0) return;
  core_.receives->post({spent_.data(), spent_count_});
  spent_count_ = 0;
}

}  // namespace yonder::rpc
