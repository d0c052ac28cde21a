// The way out: from an answer to the fabric.

#include <algorithm>
#include <utility>

#include "yonder/base/check.h"
#include "yonder/rpc/internal/poller.h"

namespace yonder::rpc {

using fabric::Completion;
using fabric::RequestFlags;
using fabric::WorkRequest;

// ---------------------------------------------------------------- exchanges

Exchange* Poller::take_exchange(Connection& connection) {
  if (free_exchanges_.empty() || connection.exchanges == exchanges_per_connection_) return nullptr;
  // The last one used is the first taken: its lines are in the cache.
  Exchange* exchange = free_exchanges_.back();
  free_exchanges_.pop_back();
  exchange->connection = &connection;
  ++connection.exchanges;
  exchanges_used_.store(static_cast<std::uint32_t>(exchanges_.size() - free_exchanges_.size()),
                        std::memory_order_release);
  return exchange;
}

void Poller::release(Exchange& exchange) {
  --exchange.connection->exchanges;
  free_exchanges_.push_back(&exchange);
  exchanges_used_.store(static_cast<std::uint32_t>(exchanges_.size() - free_exchanges_.size()),
                        std::memory_order_release);
}

void Exchange::finish(ErrorCode code, std::size_t bytes) {
  status = code;
  payload_bytes = static_cast<std::uint32_t>(bytes);
  poller->on_finished(*this);
}

// ---------------------------------------------------------------- answering

void Poller::take_finished() {
  std::array<Exchange*, kDoorbell> batch;
  const std::size_t count = finished_.pop(batch);
  for (std::size_t i = 0; i < count; ++i) answer(*batch[i]);
}

void Poller::count_answer(const Exchange& exchange) const {
  if (exchange.status != ErrorCode::kOk) exchange.method->count_error();
  if (exchange.started == Instant()) [[likely]]
    return;
  const Duration took = core_.clock->now() - exchange.started;
  exchange.method->metrics->latency.record(static_cast<std::uint64_t>(took.count()));
}

void Poller::answer(Exchange& exchange) {
  count_answer(exchange);
  Connection& connection = *exchange.connection;
  if (connection.closed) [[unlikely]]
    return release(exchange);
  put_header(ResponseHeader{.request_id = exchange.request_id,
                            // Relaxed: which side of a change the client learns is its luck.
                            .epoch = core_.epoch.load(std::memory_order_relaxed),
                            .status = static_cast<std::uint16_t>(exchange.status),
                            .credits = 1,
                            .sizes = ResponseHeader::pack_sizes(exchange.payload_bytes)},
             exchange.buffer);
  ++connection.credits;
  if (!connection.unsent.empty()) [[unlikely]] {
    connection.unsent.push_back({.exchange = &exchange});
    return;
  }
  if (staged_for_ != &connection || staged_count_ == kDoorbell) flush();
  staged_for_ = &connection;
  staged_[staged_count_++] = &exchange;
  // The first answer of a step leaves at once: it is the only one when a client
  // waits for it, and then every nanosecond counts. Later ones share a doorbell.
  if (!in_step_ || !std::exchange(answered_in_step_, true)) flush();
}

bool Poller::must_signal(Connection& connection) const {
  // Unsignalled sends use up the depth until a later signalled one completes: with
  // one in depth / 4 there is always one on its way.
  if (++connection.sends_since_signal < depth_ / 4) return false;
  connection.sends_since_signal = 0;
  return true;
}

// After a send that was not accepted: it may have been the one with the signal.
void Poller::signal_next(Connection& connection) const { connection.sends_since_signal = depth_; }

WorkRequest Poller::make_send(Connection& connection, Exchange& exchange) {
  exchange.piece = {.data = exchange.buffer,
                    .length = static_cast<std::uint32_t>(kResponseHeaderBytes) + exchange.payload_bytes};
  WorkRequest request{.op = fabric::Op::kSend, .local = {&exchange.piece, 1}};
  if (exchange.piece.length > connection.max_inline) {
    request.flags = RequestFlags::kOperation;
    request.user_data = reinterpret_cast<std::uint64_t>(static_cast<fabric::Operation*>(&exchange));
    connection.sends_since_signal = 0;
  } else {
    // Reports to the poller, not to the exchange: that is free again at once.
    request.flags = RequestFlags::kOperation | RequestFlags::kInline;
    if (!must_signal(connection)) request.flags = request.flags | RequestFlags::kUnsignalled;
    request.user_data = reinterpret_cast<std::uint64_t>(static_cast<fabric::Operation*>(&short_answer_sent_));
  }
  return request;
}

void Poller::flush() {
  if (staged_count_ == 0) return;
  Connection& connection = *staged_for_;
  for (std::uint32_t i = 0; i < staged_count_; ++i) requests_[i] = make_send(connection, *staged_[i]);
  const Result<std::size_t> posted = connection.endpoint->post({requests_.data(), staged_count_});
  const std::size_t count = posted.value_or(0);
  if (count < staged_count_) signal_next(connection);
  for (std::size_t i = 0; i < staged_count_; ++i) {
    if (i >= count) {
      connection.unsent.push_back({.exchange = staged_[i]});
    } else if (has(requests_[i].flags, RequestFlags::kInline)) {
      release(*staged_[i]);
    }
  }
  staged_count_ = 0;
  staged_for_ = nullptr;
}

bool Poller::post_header(Connection& connection, const ResponseHeader& header, Signal& signal,
                         bool signalled) {
  std::array<std::byte, kResponseHeaderBytes> bytes;
  put_header(header, bytes.data());
  const fabric::LocalPiece piece = fabric::LocalPiece::of(std::span<const std::byte>(bytes));
  const RequestFlags flags = RequestFlags::kOperation | RequestFlags::kInline;
  const WorkRequest request{
      .op = fabric::Op::kSend,
      .flags = signalled ? flags : flags | RequestFlags::kUnsignalled,
      .user_data = reinterpret_cast<std::uint64_t>(static_cast<fabric::Operation*>(&signal)),
      .local = {&piece, 1}};
  return connection.endpoint->post({&request, 1}).value_or(0) == 1;
}

void Poller::refuse(Connection& connection, std::uint64_t request_id, ErrorCode status) {
  refused_.store(refused_.load(std::memory_order_relaxed) + 1, std::memory_order_relaxed);
  ++connection.credits;
  connection.unsent.push_back({.request_id = request_id, .status = status});
  if (connection.unsent.size() == 1) send_unsent(connection);
}

void Poller::send_unsent(Connection& connection) {
  std::size_t done = 0;
  for (; done < connection.unsent.size(); ++done) {
    const Unsent& unsent = connection.unsent[done];
    if (unsent.exchange == nullptr) {
      const ResponseHeader header{.request_id = unsent.request_id,
                                  .epoch = core_.epoch.load(std::memory_order_relaxed),
                                  .status = static_cast<std::uint16_t>(unsent.status),
                                  .credits = 1,
                                  .sizes = ResponseHeader::pack_sizes(0)};
      if (!post_header(connection, header, short_answer_sent_, must_signal(connection))) break;
    } else {
      const WorkRequest request = make_send(connection, *unsent.exchange);
      if (connection.endpoint->post({&request, 1}).value_or(0) != 1) break;
      if (has(request.flags, RequestFlags::kInline)) release(*unsent.exchange);
    }
  }
  if (done < connection.unsent.size()) signal_next(connection);
  connection.unsent.erase(connection.unsent.begin(),
                          connection.unsent.begin() + static_cast<std::ptrdiff_t>(done));
}

// ---------------------------------------------------------------- completions

void Poller::on_answer_sent(fabric::Operation& op, const Completion& completion) {
  auto& exchange = static_cast<Exchange&>(op);
  Poller& poller = *exchange.poller;
  Connection& connection = *exchange.connection;
  poller.release(exchange);
  if (connection.closed) return;
  if (!completion.ok()) return poller.close(connection);
  if (!connection.unsent.empty()) poller.send_unsent(connection);
}

void Poller::on_short_answer_sent(fabric::Operation& op, const Completion& completion) {
  Poller& poller = *static_cast<Signal&>(op).poller;
  Connection* connection = poller.connections_.find(completion.endpoint);
  if (connection == nullptr) return;
  // A client that does not take its answers in time, or has not the room it said.
  if (!completion.ok()) return poller.close(*connection);
  if (!connection->unsent.empty()) poller.send_unsent(*connection);
}

void Poller::on_goodbye_sent(fabric::Operation& op, const Completion&) {
  // Delivered or not: the connection is closed next.
  --static_cast<Signal&>(op).poller->goodbyes_under_way_;
}

}  // namespace yonder::rpc
