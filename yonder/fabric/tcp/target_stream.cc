#include "yonder/fabric/tcp/internal/target_stream.h"

#include <algorithm>
#include <cstring>
#include <utility>

namespace yonder::fabric::tcp {
namespace {

// Free output that every request may count on: its reply, or the end of a chunk.
constexpr std::size_t kReplyRoom = sizeof(ReplyHeader) + sizeof(ChunkHeader);
// A smaller chunk would cost more in headers and calls than waiting for room.
constexpr std::uint32_t kSmallestChunk = 4096;
// The first word of a read that wants an answer.
constexpr std::uint64_t kReadRequest = std::uint64_t{kFrameMagic} | std::uint64_t{kFrameVersion} << 16 |
                                       std::uint64_t{static_cast<std::uint8_t>(Op::kRead)} << 24;
// How often one progress() reads before other streams get their turn.
constexpr int kReadsPerTurn = 4;

// 7/8 of the peer's budget: the answer must still reach it in time.
Duration patience(std::uint64_t budget_ns) {
  constexpr std::uint64_t kLongest = 3'600'000'000'000;  // An hour: no sum below overflows.
  const std::uint64_t bounded = std::min(budget_ns, kLongest);
  return Duration(static_cast<std::int64_t>(bounded - bounded / 8));
}

}  // namespace

TargetStream::TargetStream(std::unique_ptr<Transport> transport, const TargetContext& context,
                           TenantId tenant, std::shared_ptr<Inbox> inbox)
    : transport_(std::move(transport)), context_(context), tenant_(tenant), inbox_(std::move(inbox)) {}

TargetStream::~TargetStream() {
  release_binding();
  give_back_receive();
}

// ---------------------------------------------------------------- bytes in, bytes out

Result<bool> TargetStream::progress(Instant now) {
  now_ = now;
  // The clock of a stall starts when we begin to wait for the peer.
  if (!waits_for_peer()) last_progress_ = now;
  again_ = false;
  YONDER_TRY(worked, flush());
  advanced_ = worked;
  YONDER_TRY_VOID(pump());
  for (int i = 0; i < kReadsPerTurn && !is_blocked(); ++i) {
    YONDER_TRY(received, receive());
    if (!received) break;
    worked = true;
    YONDER_TRY_VOID(pump());
    if (!again_) break;
  }
  YONDER_TRY(sent, flush());
  worked |= sent;
  // Bytes of a header alone are no progress: they could drip in for ever.
  if (std::exchange(advanced_, false) || sent) last_progress_ = now;
  // A long answer goes on as soon as there is room, which no event would tell us
  // if the socket has taken everything.
  again_ |= phase_ == Phase::kAnsweringRead && !wants_write();
  if (waits_for_peer() && now - last_progress_ > context_.stall_timeout)
    return fail(ErrorCode::kPeerTooSlow, "the peer stopped in the middle");
  return worked;
}

// The buffer is empty here: pump() leaves nothing behind unless it is blocked.
Result<bool> TargetStream::receive() {
  if (input_ == nullptr) input_ = std::make_unique_for_overwrite<std::byte[]>(kInputBytes);
  const iovec part{.iov_base = input_.get(), .iov_len = kInputBytes};
  YONDER_TRY(count, transport_->receive({&part, 1}));
  input_begin_ = 0;
  input_end_ = count;
  // A short read emptied the socket: asking again would only cost a system call.
  again_ = count == kInputBytes || transport_->has_buffered();
  return count != 0;
}

Result<bool> TargetStream::flush() {
  bool worked = false;
  while (!output_.empty()) {
    const std::span<const std::byte> pending = output_.pending();
    const iovec part{.iov_base = const_cast<std::byte*>(pending.data()), .iov_len = pending.size()};
    YONDER_TRY(count, transport_->send({&part, 1}));
    output_.consume(count);
    worked |= count != 0;
    if (count < pending.size()) return worked;
  }
  if (transport_->unsent()) YONDER_TRY_VOID(transport_->flush());
  return worked;
}

bool TargetStream::is_blocked() const {
  return phase_ == Phase::kAnsweringRead || phase_ == Phase::kAwaitingReceive || output_.room() < kReplyRoom;
}

Instant TargetStream::next_timer() const {
  if (phase_ == Phase::kAwaitingReceive) return receive_deadline_;
  if (waits_for_peer()) return last_progress_ + context_.stall_timeout;
  return Instant::from_ns(INT64_MAX);
}

// Flattened: what happens for every request happens without calls.
[[gnu::flatten]] Result<void> TargetStream::pump() {
  std::span<const std::byte> input(input_.get() + input_begin_, input_end_ - input_begin_);
  for (bool more = true; more;) {
    if (phase_ == Phase::kAnsweringRead && !answer_read()) break;
    if (output_.room() < kReplyRoom) break;
    if (phase_ == Phase::kAwaitingReceive) {
      if (!continue_await()) break;
      continue;  // It may have used the room.
    }
    if (touch_ && !parser_.mid_frame()) answer_short_reads(input);
    switch (parser_.next(input)) {
      case FrameParser::Event::kNeedMore:
        more = false;
        continue;
      case FrameParser::Event::kHeader:
        begin();
        break;
      case FrameParser::Event::kPayload:
        take_payload(input);
        break;
      case FrameParser::Event::kAborted:
        abort_payload();
        break;
      case FrameParser::Event::kMalformed:
        touch_.end();
        return fail(ErrorCode::kMalformedFrame, "serve requests");
    }
    advanced_ = true;
  }
  touch_.end();
  input_begin_ = input_end_ - input.size();
  return {};
}

// What most streams consist of: short reads of the memory we hold. Whatever is not
// exactly that, or is to be refused, is left to the parser.
void TargetStream::answer_short_reads(std::span<const std::byte>& input) {
  const std::span<const std::byte> memory = binding_->memory();
  // relaxed: as in begin().
  const std::uint64_t epoch = context_.epoch.load(std::memory_order_relaxed);
  RequestHeader request;
  while (input.size() >= sizeof request) {
    std::memcpy(&request, input.data(), sizeof request);
    std::uint64_t kind = 0;
    std::memcpy(&kind, input.data(), sizeof kind);
    const bool short_read = kind == kReadRequest && request.key == binding_key_ && request.length != 0 &&
                            !is_chunked(request.length) && request.epoch >= epoch;
    if (!short_read || output_.room() < kReplyRoom + sizeof(ReplyHeader) + request.length) return;
    if (check_binding(request, request.length) != ErrorCode::kOk) return;
    put_read_reply(request.id, memory.subspan(request.offset, request.length));
    input = input.subspan(sizeof request);
    advanced_ = true;
  }
}

// ---------------------------------------------------------------- requests

void TargetStream::begin() {
  done_bytes_ = 0;
  // relaxed: raise_epoch() promises only that requests which arrive later are
  // refused; the peer learns of the new epoch by other means.
  if (request_.epoch < context_.epoch.load(std::memory_order_relaxed))
    return drop_payload(ErrorCode::kStaleEpoch);
  switch (request_.operation()) {
    case Op::kRead:
      return begin_read();
    case Op::kWrite:
    case Op::kWriteImm:
      return begin_write();
    case Op::kSend:
      return begin_send();
    default:
      return begin_atomic();
  }
}

void TargetStream::begin_read() {
  const ErrorCode refused = open_access(request_.length);
  if (refused != ErrorCode::kOk) return reply(refused);
  if (!is_chunked(request_.length) && output_.room() >= sizeof(ReplyHeader) + request_.length) {
    return put_short_read();
  }
  hold_binding();
  answered_header_ = false;
  phase_ = Phase::kAnsweringRead;
}

bool TargetStream::answer_read() {
  if (is_chunked(request_.length)) {
    if (!answer_long_read()) return false;
  } else {
    if (output_.room() < sizeof(ReplyHeader) + request_.length) return false;
    if (touch_again()) {
      put_short_read();
    } else {
      reply(ErrorCode::kRegionRevoked);
    }
  }
  release_binding();
  phase_ = Phase::kNextRequest;
  return true;
}

bool TargetStream::answer_long_read() {
  if (!answered_header_) {
    if (output_.room() < kReplyRoom) return false;
    put_reply_header(ErrorCode::kOk, request_.length, 0);
    answered_header_ = true;
  }
  while (done_bytes_ < request_.length) {
    const std::uint32_t left = request_.length - done_bytes_;
    // kReplyRoom stays free: the abort below must always fit.
    const std::size_t room = output_.room() < 2 * kReplyRoom ? 0 : output_.room() - 2 * kReplyRoom;
    const auto count = static_cast<std::uint32_t>(std::min<std::size_t>({left, kChunkBytes, room}));
    if (count < std::min(left, kSmallestChunk)) return false;
    if (!touch_again()) {
      put_chunk_header(ErrorCode::kRegionRevoked, 0);
      return true;
    }
    put_chunk_header(ErrorCode::kOk, count);
    sync::load_words(output_.append(count), binding_->memory().data() + request_.offset + done_bytes_, count);
    done_bytes_ += count;
  }
  return true;
}

void TargetStream::begin_write() {
  // Without an endpoint nobody could receive the immediate: nothing is written.
  if (request_.operation() == Op::kWriteImm && inbox_ == nullptr)
    return drop_payload(ErrorCode::kReceiverNotReady);
  const ErrorCode refused = open_access(request_.length);
  if (refused != ErrorCode::kOk) return drop_payload(refused);
  hold_binding();
  writer_.start(binding_->memory().data() + request_.offset);
  phase_ = Phase::kStoring;
}

void TargetStream::begin_atomic() {
  const ErrorCode refused = open_access(8);
  if (refused != ErrorCode::kOk) return reply(refused);
  std::byte* word = binding_->memory().data() + request_.offset;
  // Offsets were checked; the memory itself may have been registered askew.
  if (reinterpret_cast<std::uintptr_t>(word) % 8 != 0) return reply(ErrorCode::kMisaligned);
  const std::uint64_t old = request_.operation() == Op::kFetchAdd
                                ? sync::shared_fetch_add(word, request_.operand)
                                : sync::shared_compare_swap(word, request_.compare, request_.operand);
  reply(ErrorCode::kOk, old);
}

void TargetStream::begin_send() {
  if (inbox_ == nullptr) return drop_payload(ErrorCode::kReceiverNotReady);
  if (request_.length > inbox_->max_message()) return drop_payload(ErrorCode::kMessageTooLong);
  await_receive();
}

void TargetStream::await_receive() {
  receive_deadline_ = now_ + patience(request_.budget_ns);
  phase_ = Phase::kAwaitingReceive;
}

bool TargetStream::continue_await() {
  const bool is_send = request_.operation() == Op::kSend;
  const ErrorCode taken = inbox_->take(is_send ? request_.length : 0, receive_);
  if (taken == ErrorCode::kReceiverNotReady && now_ < receive_deadline_) return false;
  if (taken != ErrorCode::kOk) {
    drop_payload(taken);
  } else if (is_send && !parser_.complete()) {
    holds_receive_ = true;
    phase_ = Phase::kDelivering;
  } else {
    inbox_->finish(receive_, is_send ? Op::kReceive : Op::kReceiveImm, request_.length, request_.immediate);
    reply(ErrorCode::kOk);
    phase_ = Phase::kNextRequest;
  }
  return true;
}

// ---------------------------------------------------------------- payloads

void TargetStream::take_payload(std::span<const std::byte>& input) {
  const auto count = static_cast<std::uint32_t>(std::min<std::size_t>(input.size(), parser_.ready()));
  parser_.take(count);
  use_payload(input.first(count));
  input = input.subspan(count);
  if (parser_.complete()) end_payload();
}

void TargetStream::use_payload(std::span<const std::byte> bytes) {
  if (phase_ == Phase::kStoring) {
    if (touch_again()) {
      writer_.put(bytes, parser_.complete());
    } else {
      release_binding();
      status_ = ErrorCode::kRegionRevoked;
      phase_ = Phase::kDropping;
    }
  } else if (phase_ == Phase::kDelivering) {
    std::memcpy(receive_.buffer.data + done_bytes_, bytes.data(), bytes.size());
    done_bytes_ += static_cast<std::uint32_t>(bytes.size());
  }
}

void TargetStream::end_payload() {
  const Phase ended = std::exchange(phase_, Phase::kNextRequest);
  if (ended == Phase::kDropping) return reply(status_);
  if (ended == Phase::kDelivering) {
    holds_receive_ = false;
    inbox_->finish(receive_, Op::kReceive, request_.length, request_.immediate);
    return reply(ErrorCode::kOk);
  }
  release_binding();
  if (request_.operation() == Op::kWriteImm) return await_receive();
  reply(ErrorCode::kOk);
}

// The initiator gave up in the middle: its deadline passed, or it was closed.
void TargetStream::abort_payload() {
  release_binding();
  give_back_receive();
  phase_ = Phase::kNextRequest;
  reply(parser_.abort_status());
}

void TargetStream::drop_payload(ErrorCode why) {
  status_ = why;
  phase_ = Phase::kDropping;
  if (parser_.complete()) end_payload();
}

// ---------------------------------------------------------------- checks

bool TargetStream::touch_for_new_request(std::uint64_t key) {
  if (binding_ != nullptr && binding_key_ == key) {
    // Held since an earlier request of this round: whoever revokes waits for us.
    if (touch_) return true;
    touch_ = binding_->touch_for_new_request();
    if (touch_) return true;
  }
  touch_.end();
  binding_ = context_.regions.find(key);
  binding_key_ = key;
  if (binding_ != nullptr) touch_ = binding_->touch_for_new_request();
  return static_cast<bool>(touch_);
}

bool TargetStream::touch_again() {
  if (!touch_) touch_ = binding_->touch_again();
  return static_cast<bool>(touch_);
}

ErrorCode TargetStream::open_access(std::uint64_t length) {
  if (!touch_for_new_request(request_.key)) return ErrorCode::kUnknownKey;
  return check_binding(request_, length);
}

ErrorCode TargetStream::check_binding(const RequestHeader& request, std::uint64_t length) const {
  if (request.tenant != tenant_.value() || (binding_->tenant().value() != 0 && binding_->tenant() != tenant_))
    return ErrorCode::kTenantDenied;
  return check_access(request.operation(), request.offset, length, binding_->memory().size(),
                      binding_->rights());
}

void TargetStream::hold_binding() {
  binding_->begin_request();
  holds_request_ = true;
}

void TargetStream::release_binding() {
  if (std::exchange(holds_request_, false)) binding_->end_request();
}

void TargetStream::give_back_receive() {
  if (std::exchange(holds_receive_, false)) inbox_->give_back(receive_);
}

// ---------------------------------------------------------------- replies

void TargetStream::reply(ErrorCode status, std::uint64_t value) {
  if (status == ErrorCode::kOk && request_.is_unsignalled()) return;
  put_reply_header(status, 0, value);
}

void TargetStream::put_reply_header(ErrorCode status, std::uint32_t length, std::uint64_t value) {
  encode_reply(output_.append(sizeof(ReplyHeader)),
               {.op = request_.op, .status = status, .id = request_.id, .length = length, .value = value});
}

void TargetStream::put_short_read() {
  put_read_reply(request_.id, binding_->memory().subspan(request_.offset, request_.length));
}

void TargetStream::put_read_reply(std::uint32_t id, std::span<const std::byte> memory) {
  const auto length = static_cast<std::uint32_t>(memory.size());
  std::byte* out = output_.append(sizeof(ReplyHeader) + length);
  encode_reply(out, {.op = static_cast<std::uint8_t>(Op::kRead), .id = id, .length = length});
  sync::load_words(out + sizeof(ReplyHeader), memory.data(), length);
}

void TargetStream::put_chunk_header(ErrorCode status, std::uint32_t length) {
  const ChunkHeader header{.status = static_cast<std::uint16_t>(status), .length = length};
  std::memcpy(output_.append(sizeof header), &header, sizeof header);
}

}  // namespace yonder::fabric::tcp
