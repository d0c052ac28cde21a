#include "yonder/structures/internal/shuffle_outbox.h"

#include <algorithm>
#include <cstring>

#include "yonder/base/check.h"

namespace yonder::structures::internal {

using fabric::Completion;
using fabric::LocalPiece;
using fabric::Op;
using fabric::RequestFlags;
using fabric::WorkRequest;

Outbox::Outbox(std::unique_ptr<fabric::Endpoint> endpoint, std::span<std::byte> memory,
               const OutboxOptions& options)
    : endpoint_(std::move(endpoint)),
      memory_(memory),
      options_(options),
      mirror_(memory.first(options.inbox.shape.ring_bytes)),
      ring_(options.inbox.token.at(options.inbox.shape.ring(options.sender))),
      tail_word_(options.inbox.token.at(options.inbox.shape.tail(options.sender))),
      consumed_word_(options.inbox.token.at(options.inbox.shape.consumed(options.sender))),
      builder_(options.builder),
      flights_(options.in_flight, Flight(*this)) {
  YONDER_CHECK(memory.size() >= memory_for(options.inbox.shape.ring_bytes, options.in_flight),
               "an outbox has its memory");
}

// The words after the mirror: tails of batches in flight, then the one read back, then
// the hello.
std::byte* Outbox::word(std::uint64_t index) const {
  return memory_.data() + mirror_.size() + index * sizeof(std::uint64_t);
}

LocalPiece Outbox::piece_of(std::byte* data, std::uint64_t bytes) const {
  return {data, static_cast<std::uint32_t>(bytes), options_.builder.mirror_key};
}

void Outbox::failed(ErrorCode code, const char* what) {
  if (!error_) error_ = Error(code, what, options_.receiver);
}

void Outbox::on_write(Operation& self, const Completion& completion) {
  auto& flight = static_cast<Flight&>(self);
  Outbox& outbox = flight.outbox;
  --flight.under_way;
  if (!completion.ok()) outbox.failed(completion.status, "shuffle: write a batch");
  outbox.land();
  outbox.post_rest();
}

void Outbox::land() {
  while (done_ != launched_) {
    const Flight& oldest = flights_[done_ % flights_.size()];
    if (oldest.under_way != 0 || oldest.posted != oldest.count) break;
    written_ = oldest.end;
    ++done_;
  }
}

void Outbox::give_up() {
  for (; posted_ != launched_; ++posted_) {
    Flight& flight = flights_[posted_ % flights_.size()];
    flight.count = flight.posted;
  }
  land();
}

void Outbox::on_room(Operation& self, const Completion& completion) {
  Outbox& outbox = static_cast<Handler&>(self).outbox;
  outbox.asking_ = false;
  if (!completion.ok()) return outbox.failed(completion.status, "shuffle: ask for room");
  std::uint64_t consumed = 0;
  std::memcpy(&consumed, outbox.word(outbox.options_.in_flight), sizeof consumed);
  // A receiver that claims to have consumed what was never sent, or takes it back.
  if (consumed > outbox.tail_ || consumed < outbox.consumed_)
    return outbox.failed(ErrorCode::kCorrupt, "shuffle: the receiver's count of consumed bytes cannot be");
  outbox.consumed_ = consumed;
}

void Outbox::on_hello(Operation& self, const Completion& completion) {
  Outbox& outbox = static_cast<Handler&>(self).outbox;
  outbox.hello_pending_ = false;
  if (!completion.ok()) outbox.failed(completion.status, "shuffle: greet a receiver");
}

void Outbox::post_hello() {
  const std::uint64_t sender = options_.sender;
  std::byte* const hello = word(options_.in_flight + 1);
  std::memcpy(hello, &sender, sizeof sender);
  const LocalPiece piece = piece_of(hello, sizeof sender);
  const WorkRequest request{
      .op = Op::kSend,
      .flags = RequestFlags::kOperation,
      .user_data = reinterpret_cast<std::uintptr_t>(static_cast<Operation*>(&hello_done_)),
      .local = {&piece, 1},
      .deadline = Deadline::after(endpoint_->queue().clock(), options_.timeout)};
  hello_pending_ = post_alone(request);
  YONDER_CHECK(hello_pending_ || error_, "the first request of a connection finds room");
}

std::uint64_t Outbox::skip_before(std::uint64_t bytes) const {
  const std::uint64_t left = mirror_.size() - place_of(tail_);
  return bytes <= left ? 0 : left;
}

bool Outbox::room_for(std::uint64_t bytes) const {
  return launched_ - done_ < flights_.size() &&
         tail_ + skip_before(bytes) + bytes - std::min(consumed_, written_) <= mirror_.size();
}

std::uint64_t Outbox::place_for(const ShuffleEntry& entry) const {
  return std::max(BatchBuilder::bytes_for_first(entry), options_.batch_bytes);
}

bool Outbox::is_roomy_for(const ShuffleEntry& entry) const {
  return builder_.is_open() || room_for(std::max(place_for(entry), mirror_.size() / 4));
}

bool Outbox::try_open(const ShuffleEntry& entry) {
  const std::uint64_t wanted = place_for(entry);
  if ((tail_ + wanted - consumed_) * 2 > mirror_.size()) ask_for_room();
  if (!room_for(wanted)) return false;
  open_skip_ = skip_before(wanted);
  builder_.open(mirror_.subspan(place_of(tail_ + open_skip_), wanted));
  return true;
}

bool Outbox::try_add(const ShuffleEntry& entry) {
  if (builder_.is_open()) {
    if (builder_.try_add(entry)) return true;
    post_batch();
  }
  if (!try_open(entry)) return false;
  const bool taken = builder_.try_add(entry);
  YONDER_CHECK(taken, "a batch that was opened for an entry takes it");
  if (options_.builder.max_entries == 1) post_batch();
  return true;
}

void Outbox::post_batch() {
  if (!builder_.is_open()) return;
  const std::uint64_t skip_ticket = open_skip_ == 0 ? 0 : next_ticket();
  const std::span<const LocalPiece> pieces = builder_.seal(next_ticket());
  if (open_skip_ != 0) {
    const BatchHeader header{
        .ticket = skip_ticket, .bytes = static_cast<std::uint32_t>(open_skip_), .kind = BatchKind::kSkip};
    std::memcpy(mirror_.data() + place_of(tail_), &header, sizeof header);
  }
  std::uint64_t bytes = 0;
  for (const LocalPiece& piece : pieces) bytes += piece.length;
  if (!options_.builder.gather) endpoint_->queue().charge_copy(builder_.count(), bytes);
  launch(pieces, open_skip_, bytes);
}

bool Outbox::try_end(BatchKind kind) {
  post_batch();
  if (!room_for(sizeof(BatchHeader))) {
    ask_for_room();
    return false;
  }
  // A header always fits before the end of the ring: both are multiples of 32.
  const BatchHeader header{.ticket = next_ticket(), .bytes = sizeof header, .kind = kind};
  std::byte* const place = mirror_.data() + place_of(tail_);
  std::memcpy(place, &header, sizeof header);
  const LocalPiece piece = piece_of(place, sizeof header);
  launch({&piece, 1}, 0, sizeof header);
  return true;
}

WorkRequest Outbox::write_request(Flight& flight, std::span<const LocalPiece> pieces,
                                  fabric::RemoteAddress to) const {
  std::uint64_t bytes = 0;
  for (const LocalPiece& piece : pieces) bytes += piece.length;
  // Small ones ride in the request itself, which saves the NIC a fetch.
  const bool in_line = pieces.size() == 1 && bytes <= endpoint_->limits().max_inline;
  return {.op = Op::kWrite,
          .flags = RequestFlags::kOperation | (in_line ? RequestFlags::kInline : RequestFlags::kNone),
          .user_data = reinterpret_cast<std::uintptr_t>(static_cast<Operation*>(&flight)),
          .local = pieces,
          .remote = to,
          .deadline = Deadline::after(endpoint_->queue().clock(), options_.timeout)};
}

// Skip, batch and tail leave in one post: they take effect in this order (E1).
void Outbox::launch(std::span<const LocalPiece> pieces, std::uint64_t skip, std::uint64_t bytes) {
  const std::uint64_t slot = launched_ % flights_.size();
  Flight& flight = flights_[slot];
  flight.pieces.assign(pieces.begin(), pieces.end());
  flight.count = flight.posted = 0;
  if (skip != 0) {
    flight.skip_piece = piece_of(mirror_.data() + place_of(tail_), sizeof(BatchHeader));
    flight.requests[flight.count++] = write_request(flight, {&flight.skip_piece, 1}, ring_ + place_of(tail_));
  }
  flight.requests[flight.count++] = write_request(flight, flight.pieces, ring_ + place_of(tail_ + skip));
  tail_ += skip + bytes;
  std::memcpy(word(slot), &tail_, sizeof tail_);
  flight.tail_piece = piece_of(word(slot), sizeof tail_);
  flight.requests[flight.count++] = write_request(flight, {&flight.tail_piece, 1}, tail_word_);
  flight.end = tail_;
  ++launched_;
  post_rest();
}

void Outbox::post_rest() {
  while (posted_ != launched_) {
    Flight& flight = flights_[posted_ % flights_.size()];
    const auto rest = std::span(flight.requests).first(flight.count).subspan(flight.posted);
    const Result<std::size_t> taken = endpoint_->post(rest);
    if (!taken) {
      if (taken.error() == ErrorCode::kQueueFull) return;
      failed(taken.error().code(), "shuffle: post");
      return give_up();
    }
    flight.posted += static_cast<std::uint32_t>(*taken);
    flight.under_way += static_cast<std::uint32_t>(*taken);
    if (flight.posted != flight.count) return;
    ++posted_;
  }
}

void Outbox::ask_for_room() {
  if (asking_ || error_) return;
  const LocalPiece piece = piece_of(word(options_.in_flight), sizeof(std::uint64_t));
  const WorkRequest request{
      .op = Op::kRead,
      .flags = RequestFlags::kOperation,
      .user_data = reinterpret_cast<std::uintptr_t>(static_cast<Operation*>(&room_done_)),
      .local = {&piece, 1},
      .remote = consumed_word_,
      .deadline = Deadline::after(endpoint_->queue().clock(), options_.timeout)};
  asking_ = post_alone(request);
}

bool Outbox::post_alone(const WorkRequest& request) {
  const Result<std::size_t> posted = endpoint_->post({&request, 1});
  if (!posted && !(posted.error() == ErrorCode::kQueueFull)) failed(posted.error().code(), "shuffle: post");
  return posted && *posted == 1;
}

}  // namespace yonder::structures::internal
