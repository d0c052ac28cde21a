#include "yonder/rpc/client.h"

#include <algorithm>
#include <bit>

#include "yonder/base/check.h"

namespace yonder::rpc {

using fabric::Completion;
using fabric::RequestFlags;

// ---------------------------------------------------------------- making

Result<ClientPtr> Client::connect(fabric::Fabric& fabric, const std::string& address,
                                  fabric::CompletionQueue& queue, const ClientOptions& options) {
  if (options.max_outstanding == 0 || options.max_outstanding >= CallTable::kMaxSlots)
    return fail(ErrorCode::kInvalidArgument, "rpc client: max_outstanding", options.max_outstanding);
  fabric::ConnectOptions connect;
  connect.address = address;
  connect.identity = {.tenant = options.tenant, .epoch = options.epoch};
  connect.connect_timeout = options.connect_timeout;
  // For what the application posts there itself: the same as for calls.
  connect.endpoint.default_timeout = options.default_timeout;
  connect.endpoint.depth = options.max_outstanding + options.one_sided_depth;
  connect.endpoint.receive_depth = options.max_outstanding + 1 + kRepostBatch;
  YONDER_TRY(endpoint, fabric.connect(connect, queue));
  return create(std::move(endpoint), options);
}

Result<ClientPtr> Client::create(std::unique_ptr<fabric::Endpoint> endpoint, const ClientOptions& options) {
  YONDER_TRY(greeting, read_greeting(endpoint->greeting()));
  const fabric::Limits& limits = endpoint->limits();
  // One receive more than there are requests, for the goodbye; the others wait to
  // be posted again in a batch.
  constexpr std::uint32_t kSpare = 1 + kRepostBatch;
  const std::uint32_t receives = limits.receive_depth > kSpare ? limits.receive_depth - kSpare : 0;
  const std::uint32_t slots =
      std::min({std::uint32_t{greeting.credits}, options.max_outstanding, limits.depth, receives});
  if (slots == 0 || options.max_response + kResponseHeaderBytes > limits.max_message)
    return fail(ErrorCode::kInvalidArgument, "rpc client: the endpoint is too small", limits.receive_depth);
  ClientPtr client(new Client(std::move(endpoint), options, greeting, slots));
  if (client->state_ != State::kReady) return fail(ErrorCode::kConnectionLost, "rpc client: post receives");
  return client;
}

Client::Client(std::unique_ptr<fabric::Endpoint> endpoint, const ClientOptions& options,
               const Greeting& greeting, std::uint32_t slots)
    : options_(options),
      endpoint_(std::move(endpoint)),
      credits_(slots),
      default_budget_us_(budget_us(options.default_timeout)),
      answer_log2_(log2_floor(options.max_response)),
      max_inline_(endpoint_->limits().max_inline),
      table_(
          slots,
          kRequestHeaderBytes + std::min<std::size_t>(greeting.max_request, endpoint_->limits().max_message),
          *this, &Client::on_sent),
      anchor_(std::make_shared<Anchor>(Anchor{this})) {
  max_request_ = std::min(greeting.max_request,
                          endpoint_->limits().max_message - static_cast<std::uint32_t>(kRequestHeaderBytes));
  if (options.same_greeting) first_greeting_.assign(this->greeting().begin(), this->greeting().end());
  staged_.reserve(slots);
  const std::uint32_t count = slots + 1 + kRepostBatch;
  const std::uint32_t bytes =
      (static_cast<std::uint32_t>(kResponseHeaderBytes) + (1u << answer_log2_) + 63) / 64 * 64;
  receive_memory_ = std::make_unique_for_overwrite<std::byte[]>(std::size_t{count} * bytes);
  receives_.assign(count, Receive(&Client::on_receive));
  for (std::uint32_t i = 0; i < count; ++i) {
    receives_[i].client = this;
    receives_[i].buffer = {.data = receive_memory_.get() + std::size_t{i} * bytes, .length = bytes};
  }
  post_all_receives();
}

void ClientDeleter::operator()(Client* client) const {
  client->close();
  // What closing ended lies in the queue; on every provider a few polls take it.
  for (int i = 0; i < 16 && client->fabric_holds_memory(); ++i) client->queue().poll({});
  client->orphaned_ = true;
  if (!client->fabric_holds_memory()) delete client;
}

Client::~Client() { anchor_->client = nullptr; }

// An operation's call ends here: may delete the client.
void Client::operation_ended() {
  --in_operations_;
  if (orphaned_ && !fabric_holds_memory()) delete this;
}

// ---------------------------------------------------------------- sending

void Client::start(CallBase& call) {
  if (state_ != State::kReady && state_ != State::kRecovering) [[unlikely]] {
    const ErrorCode why = state_ == State::kStopping ? ErrorCode::kStopping
                          : state_ == State::kBroken ? broken_by_
                                                     : ErrorCode::kClosed;
    call.finish(why, {});
  } else if (credits_ == 0 || !table_.has_free() || !waiting_.empty()) [[unlikely]] {
    // The time in the line counts.
    make_deadline_explicit(call);
    call.state_ = CallBase::State::kWaiting;
    waiting_.push_back(call);
  } else {
    send(call);
  }
}

void Client::make_deadline_explicit(CallBase& call) {
  if (call.deadline_.is_default())
    call.deadline_ = Deadline::after(queue().clock(), options_.default_timeout);
}

std::uint32_t Client::budget_of(const CallBase& call) const {
  if (call.deadline_.is_default()) return default_budget_us_;
  if (call.deadline_ == Deadline::never()) return kNoBudget;
  return budget_us(call.deadline_.instant() - endpoint_->queue().clock().now());
}

void Client::send(CallBase& call) {
  const std::uint32_t budget = budget_of(call);
  if (budget == 0) return call.finish(ErrorCode::kDeadlineExceeded, {});
  CallTable::Slot& slot = table_.take(call);
  const std::optional<std::size_t> payload =
      call.encode_(call, {slot.buffer + kRequestHeaderBytes, max_request_});
  if (!payload) {
    table_.answered(slot);
    return call.finish(ErrorCode::kMessageTooLong, {});
  }
  put_header(
      RequestHeader{.method = call.method_.value(),
                    .sizes = RequestHeader::pack_sizes(static_cast<std::uint32_t>(*payload), answer_log2_),
                    .request_id = slot.request_id,
                    .tenant = options_.tenant.value(),
                    .budget_us = budget,
                    .epoch = options_.epoch.value()},
      slot.buffer);
  --credits_;
  call.state_ = CallBase::State::kSent;
  call.slot_ = static_cast<std::uint32_t>(slot.request_id & 0xffff);
  stage(slot, kRequestHeaderBytes + *payload);
}

void Client::stage(CallTable::Slot& slot, std::size_t bytes) {
  slot.piece = {.data = slot.buffer, .length = static_cast<std::uint32_t>(bytes)};
  slot.sending = true;
  // Signalled although nobody waits for it: then every operation of this client
  // ends exactly once, which is what its destruction counts. It costs a completion
  // in the time in which the client waits for the answer anyway.
  staged_.push_back({.op = fabric::Op::kSend,
                     .flags = bytes <= max_inline_ ? RequestFlags::kOperation | RequestFlags::kInline
                                                   : RequestFlags::kOperation,
                     .user_data = reinterpret_cast<std::uint64_t>(static_cast<fabric::Operation*>(&slot)),
                     .local = {&slot.piece, 1}});
  if (!hold_doorbell_) flush();
}

void Client::flush() {
  if (staged_.empty()) return;
  const Result<std::size_t> posted = endpoint_->post(staged_);
  // Nothing posted: the queue is full, or the connection's end is on its way to
  // the receives. Either way there will be a next time.
  if (!posted) return;
  sends_posted_ += static_cast<std::uint32_t>(*posted);
  if (*posted == staged_.size()) {
    staged_.clear();
  } else {
    staged_.erase(staged_.begin(), staged_.begin() + static_cast<std::ptrdiff_t>(*posted));
  }
}

void Client::drop_staged() {
  for (const fabric::WorkRequest& request : staged_)
    table_.sent(static_cast<CallTable::Slot&>(*reinterpret_cast<fabric::Operation*>(request.user_data)));
  staged_.clear();
}

void Client::send_waiting() {
  flush();
  while (!waiting_.empty() && state_ == State::kReady && credits_ > 0 && table_.has_free()) {
    CallBase& call = *waiting_.head();
    CallList::remove(call);
    send(call);
    // It did not fit, or its time was up. Whoever is resumed may change the list,
    // so the loop looks afresh.
    if (call.done()) call.resume();
  }
}

void Client::on_sent(fabric::Operation& op, const Completion& completion) {
  auto& slot = static_cast<CallTable::Slot&>(op);
  Client& client = *slot.client;
  ++client.in_operations_;
  --client.sends_posted_;
  CallBase* failed = nullptr;
  if (!completion.ok() && completion.status != ErrorCode::kCancelled) [[unlikely]]
    failed = client.take_undelivered(slot, completion.status);
  client.table_.sent(slot);
  if (client.state_ == State::kReady) client.send_waiting();
  if (failed != nullptr) {
    failed->resume();
    client.break_if_hopeless();
  }
  client.operation_ended();
}

CallBase* Client::take_undelivered(CallTable::Slot& slot, ErrorCode status) {
  CallBase* failed = std::exchange(slot.call, nullptr);
  if (status == ErrorCode::kReceiverNotReady || status == ErrorCode::kMessageTooLong) {
    // Not delivered for certain: no answer will come, the credit is ours again.
    if (slot.request_id != 0) ++credits_;
    slot.request_id = 0;
  } else {
    // The server may have it or not. The slot waits for an answer, or for the end
    // of the connection.
    slot.in_doubt = slot.request_id != 0;
  }
  if (failed != nullptr) failed->finish(status, {});
  return failed;
}

// Slots in doubt may never be answered, and nothing but a new connection gives
// their credits back. A client that lost half of them that way says so, instead of
// serving its callers ever more slowly.
void Client::break_if_hopeless() {
  const auto in_doubt = std::ranges::count_if(
      table_.slots(), [](const CallTable::Slot& slot) { return slot.in_doubt && slot.request_id != 0; });
  if (state_ == State::kReady && endpoint_->state() == fabric::EndpointState::kOpen &&
      static_cast<std::size_t>(in_doubt) * 2 > table_.size())
    break_connection(ErrorCode::kConnectionLost);
}

// ---------------------------------------------------------------- receiving

void Client::on_receive(fabric::Operation& op, const Completion& completion) {
  auto& receive = static_cast<Receive&>(op);
  Client& client = *receive.client;
  ++client.in_operations_;
  --client.receives_posted_;
  receive.is_posted = false;
  if (!completion.ok()) [[unlikely]] {
    if (completion.status == ErrorCode::kMessageTooLong) {
      ++client.stats_.unknown_answers;
      client.repost(receive);
    } else {
      client.on_connection_lost();
    }
    return client.operation_ended();
  }
  CallBase* call = client.take_answer({receive.buffer.data, completion.length});
  client.repost(receive);
  if (!client.waiting_.empty() || !client.staged_.empty()) [[unlikely]] {
    if (client.state_ == State::kReady) client.send_waiting();
    if (client.state_ == State::kStopping) client.fail_calls(Which::kWaiting, ErrorCode::kStopping);
  }
  if (call != nullptr) call->resume();
  client.operation_ended();
}

CallBase* Client::take_answer(std::span<const std::byte> message) {
  if (state_ != State::kReady && state_ != State::kStopping) return nullptr;
  ResponseHeader header;
  if (const ErrorCode status = read_response(message, header); status != ErrorCode::kOk) [[unlikely]] {
    break_connection(status);
    return nullptr;
  }
  if (header.request_id == kGoodbyeId) {
    state_ = State::kStopping;
    return nullptr;
  }
  CallTable::Slot* slot = table_.find(header.request_id);
  if (slot == nullptr) [[unlikely]] {
    ++stats_.unknown_answers;
    return nullptr;
  }
  server_epoch_ = Epoch{header.epoch};
  credits_ += header.credits;
  CallBase* call = slot->call;
  table_.answered(*slot);
  if (call == nullptr) {
    ++stats_.late_answers;
    return nullptr;
  }
  call->finish(static_cast<ErrorCode>(header.status), message.subspan(kResponseHeaderBytes));
  return call;
}

void Client::repost(Receive& receive) {
  spent_[spent_count_++] = {
      .user_data = reinterpret_cast<std::uint64_t>(static_cast<fabric::Operation*>(&receive)),
      .buffer = receive.buffer,
      .flags = RequestFlags::kOperation};
  if (spent_count_ == kRepostBatch) post_spent_receives();
}

void Client::post_spent_receives() {
  if (endpoint_->post_receive({spent_.data(), spent_count_})) {
    receives_posted_ += spent_count_;
    for (const fabric::ReceiveRequest& request : std::span(spent_).first(spent_count_))
      static_cast<Receive&>(*reinterpret_cast<fabric::Operation*>(request.user_data)).is_posted = true;
  }
  // If it was refused the connection is gone; all are posted again after it came back.
  spent_count_ = 0;
}

void Client::post_all_receives() {
  spent_count_ = 0;
  for (Receive& receive : receives_) {
    if (!receive.is_posted) repost(receive);
  }
  if (spent_count_ > 0) post_spent_receives();
  if (receives_posted_ != receives_.size()) state_ = State::kBroken;
}

// ---------------------------------------------------------------- ends

bool Client::wait_some(Deadline& deadline) {
  const bool was_recovering = state_ == State::kRecovering;
  progress();
  // That may have ended calls, and then nothing comes that would wake us.
  if (was_recovering && state_ != State::kRecovering) return true;
  const std::uint64_t before = queue().operations_completed();
  queue().poll({});
  // Something happened: the caller looks whether it was what it waits for.
  if (queue().operations_completed() != before) return true;
  const Instant now = queue().clock().now();
  if (deadline.is_default()) deadline = Deadline::at(now + options_.default_timeout);
  if (deadline.passed(now)) return false;
  Deadline until = deadline;
  // Nobody tells us that the fabric has reconnected: look again now and then.
  constexpr Duration kLookAgain = std::chrono::milliseconds(5);
  if (state_ == State::kRecovering) until = Deadline::at(std::min(deadline.instant(), now + kLookAgain));
  (void)queue().wait(until);
  return true;
}

void Client::progress() {
  if (state_ == State::kRecovering) [[unlikely]] {
    recover();
    if (state_ == State::kRecovering) begin_again_if_quiet();
  }
  flush();
}

// Once for each receive that comes back unused.
void Client::on_connection_lost() {
  if (state_ == State::kReady || state_ == State::kStopping) {
    lose_connection();
  } else if (state_ == State::kRecovering) {
    recover();
  }
}

void Client::lose_connection() {
  ++stats_.losses;
  state_ = State::kRecovering;
  credits_ = 0;
  drop_staged();
  fail_calls(Which::kSent, ErrorCode::kConnectionLost);
  quiet_posted_ = 0;
  if (state_ == State::kRecovering) recover();
}

// Receives of the lost connection come back first.
void Client::recover() {
  if (receives_posted_ == 0) begin_again();
}

// An endpoint that nobody polled may have lost one connection and made the next before
// we hear of the first: messages that came last were taken, and their receives posted
// again, when it had the new one already. Those do not come back. So what stays posted
// although the endpoint is open belongs to the new connection; if not, we hear of
// another loss later, and begin once more.
void Client::begin_again_if_quiet() {
  constexpr Duration kQuiet = std::chrono::milliseconds(2);
  if (endpoint_->state() != fabric::EndpointState::kOpen) return;
  const Instant now = queue().clock().now();
  if (receives_posted_ != quiet_posted_) {
    quiet_posted_ = receives_posted_;
    quiet_since_ = now;
  } else if (now - quiet_since_ >= kQuiet) {
    begin_again();
  }
}

void Client::begin_again() {
  const fabric::EndpointState now = endpoint_->state();
  if (now == fabric::EndpointState::kReconnecting) return;
  if (now == fabric::EndpointState::kOpen) {
    broken_by_ = objection();
    if (broken_by_ == ErrorCode::kOk) {
      broken_by_ = ErrorCode::kConnectionLost;
      const std::uint32_t granted = read_greeting(endpoint_->greeting())->credits;
      state_ = State::kReady;
      credits_ = std::min(granted, static_cast<std::uint32_t>(table_.size()));
      post_all_receives();
      if (state_ == State::kReady) return send_waiting();
    }
  }
  state_ = State::kBroken;
  fail_calls(Which::kAll, broken_by_);
}

// The server may be another one than before, with other limits.
ErrorCode Client::objection() const {
  const Result<Greeting> now = read_greeting(endpoint_->greeting());
  if (!now || now->max_request < max_request_) return ErrorCode::kConnectionLost;
  if (options_.same_greeting && !std::ranges::equal(greeting(), first_greeting_))
    return ErrorCode::kServerReplaced;
  return ErrorCode::kOk;
}

void Client::break_connection(ErrorCode status) {
  state_ = State::kBroken;
  endpoint_->close();
  fail_calls(Which::kAll, status);
}

void Client::fail_calls(Which which, ErrorCode status) {
  CallList failed;
  if (which != Which::kWaiting) {
    for (CallTable::Slot& slot : table_.slots()) {
      if (slot.request_id == 0) continue;
      CallBase* call = slot.call;
      table_.answered(slot);
      if (call == nullptr) continue;
      call->finish(status, {});
      failed.push_back(*call);
    }
  }
  while (which != Which::kSent && !waiting_.empty()) {
    CallBase& call = *waiting_.head();
    CallList::remove(call);
    call.finish(status, {});
    failed.push_back(call);
  }
  // Whoever is resumed may start and destroy calls: the list is looked at afresh
  // each time, and a call that is destroyed leaves it.
  while (!failed.empty()) {
    CallBase& call = *failed.head();
    CallList::remove(call);
    call.resume();
  }
}

void Client::forget(CallBase& call) {
  if (CallList::contains(call)) {
    CallList::remove(call);
  } else {
    table_.slots()[call.slot_].call = nullptr;
  }
}

void Client::expire(CallBase& call) {
  forget(call);
  call.finish(ErrorCode::kDeadlineExceeded, {});
}

void Client::close() {
  if (state_ == State::kClosed) return;
  state_ = State::kClosed;
  endpoint_->close();
  drop_staged();
  fail_calls(Which::kAll, ErrorCode::kCancelled);
}

void Client::check_invariants() const {
  table_.check_invariants();
  YONDER_CHECK(credits_ <= table_.size(), "never more credits than the server granted");
}

}  // namespace yonder::rpc
