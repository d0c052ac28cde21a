#pragma once
// The initiator's end of a stream: the requests of one endpoint, from post() to
// their completions.
//
// Requests live in a ring of slots, in post order. A doorbell is one vectored
// send: headers from the slots, payloads straight from the user's buffers. What
// the socket does not take stays where it is and is sent later. Replies come in
// the same order; the payload of a read is received straight into the user's
// pieces once it exceeds what arrived together with its header.
//
//   slot state | meaning                              | to
//   -----------+--------------------------------------+-----------------------------
//   kOpen      | from send_ on: not sent, or not      | sent; expired: kRetired, or
//              | completely                           | kGivenUp if partly sent
//              | before send_: awaits its reply       | kRetired; expired: kGivenUp
//   kGivenUp   | completed (deadline); its late reply | kRetired
//              | will be thrown away                  |
//   kRetired   | nothing outstanding                  | reused when it is the oldest
//
// I1 (E3)  In kGivenUp and kRetired the user's buffers are not touched: a late
//     payload is discarded, and the unsent rest of a partly sent chunk was copied
//     aside when the request was given up; an abort ends the frame.
// I2  The target answers in order, so a reply also says that all unsignalled
//     requests before it succeeded.
// I3  The ring has twice the depth. When requests given up fill it, the peer has
//     answered nothing for `depth` deadlines: the connection counts as lost.
//
// Deadlines: `earliest_` is a lower bound; only when it passes are the slots
// looked at, and then it is computed afresh. One comparison per poll.
//
// Concurrency: the thread of the completion queue. Lifetime: owns its transport;
// outlived by the queue whose rings it fills. Allocates nothing after create.

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "yonder/base/result.h"
#include "yonder/base/time.h"
#include "yonder/fabric/fabric.h"
#include "yonder/fabric/tcp/internal/account.h"
#include "yonder/fabric/tcp/internal/finished_ring.h"
#include "yonder/fabric/tcp/internal/gather.h"
#include "yonder/fabric/tcp/internal/parser.h"
#include "yonder/fabric/tcp/internal/timer.h"
#include "yonder/fabric/tcp/internal/transport.h"
#include "yonder/fabric/types.h"

namespace yonder::fabric::tcp {

class InitiatorStream {
 public:
  struct Options {
    EndpointId endpoint;
    Limits limits;
    Identity identity;
    Duration default_timeout;
  };
  InitiatorStream(const Options& options, Account& account, FinishedRing& finished);

  // Requests go out when there is a transport; before that they wait.
  void attach(std::unique_ptr<Transport> transport);
  bool is_attached() const { return transport_ != nullptr; }
  const Transport* transport() const { return transport_.get(); }

  // Takes as many requests as the depth allows and sends them. Errors: why the
  // stream is over; what was taken is then still outstanding.
  struct Posted {
    std::size_t count = 0;
    Result<void> sent;
  };
  Posted post(std::span<const WorkRequest> requests, Instant now);

  // Sends and receives what is possible now. True if anything moved. Errors: why
  // the stream is over (kConnectionLost, kMalformedFrame, kPeerTooSlow, kOsError).
  Result<bool> progress();
  // Completes what is past its deadline. True if anything was.
  bool expire(Instant now);

  // Drops the transport and completes everything outstanding with `status`.
  void end_all(ErrorCode status);

  bool has_outstanding() const { return head_ != tail_; }
  bool wants_write() const { return transport_ != nullptr && (has_unsent() || transport_->unsent()); }
  Instant next_deadline() const { return earliest_; }
  const Limits& limits() const { return options_.limits; }

 private:
  static constexpr std::size_t kInputBytes = 64 * 1024;

  enum class State : std::uint8_t { kOpen, kGivenUp, kRetired };
  struct Slot {
    LocalPiece piece;  // The only one; several are in pieces_.
    ChunkHeader last_chunk;
    std::uint64_t user_data = 0;
    Instant deadline;
    std::uint32_t length = 0;  // Bytes of the pieces.
    Op op = Op::kRead;
    std::uint8_t piece_count = 0;
    RequestFlags flags = RequestFlags::kNone;
    State state = State::kRetired;

    bool sends_payload() const { return op != Op::kRead && length != 0; }
  };

  // Posting.
  void take(const WorkRequest& request, Instant now, Instant deadline);
  void fill(const WorkRequest& request, Instant now, Instant deadline);
  std::uint32_t keep_pieces(Slot& slot, std::span<const LocalPiece> pieces);
  void copy_inline(Slot& slot);

  // Sending.
  Result<bool> flush();
  bool is_sent(std::uint32_t sequence) const { return sequence - tail_ < send_ - tail_; }
  void gather(Gather& out) const;
  // Appends bytes [from, to) of a request's frame.
  void gather_frame(Gather& out, std::uint32_t sequence, std::uint64_t from, std::uint64_t to) const;
  void gather_chunks(Gather& out, std::uint32_t sequence, std::uint64_t from, std::uint64_t to) const;
  void advance_sent(std::size_t count);
  void all_sent();
  static std::uint64_t frame_bytes(const Slot& slot);
  bool has_unsent() const { return !spill_.empty() || send_ != head_; }
  void spill_rest();

  // Receiving.
  Result<bool> receive();
  std::size_t input_limit() const;
  // Where the next payload bytes belong, if that is the user's memory; returns
  // how many bytes these places take.
  std::size_t find_places(Gather& out) const;
  Result<void> consume(std::span<const std::byte> input);
  void take_short_reads(std::span<const std::byte>& input);
  Result<void> begin_reply();
  void place(std::span<const std::byte> bytes);
  void end_reply(ErrorCode status);
  bool retire_before(std::uint32_t sequence);
  bool reply_goes_to_user() const { return !parser_.complete() && slot(reply_slot_).state == State::kOpen; }

  void give_up(std::uint32_t sequence);
  void complete(const Slot& slot, ErrorCode status, std::uint64_t value, std::uint32_t length);
  void drop_retired();

  Slot& slot(std::uint32_t sequence) { return slots_[sequence & mask_]; }
  const Slot& slot(std::uint32_t sequence) const { return slots_[sequence & mask_]; }
  RequestHeader& header(std::uint32_t sequence) { return headers_[sequence & mask_]; }
  const RequestHeader& header(std::uint32_t sequence) const { return headers_[sequence & mask_]; }
  std::span<const LocalPiece> pieces(std::uint32_t sequence) const {
    const Slot& s = slot(sequence);
    return {s.piece_count == 1 ? &s.piece : &pieces_[std::size_t{sequence & mask_} * kMaxPieces],
            s.piece_count};
  }

  const Options options_;
  Account& account_;
  FinishedRing& finished_;
  std::unique_ptr<Transport> transport_;

  // The ring: [tail_, head_) are in use; sequence numbers wrap. When none is, the
  // next one is the ring's first: few requests use few lines of the cache.
  const std::uint32_t mask_;
  std::vector<Slot> slots_;
  std::vector<RequestHeader> headers_;  // Apart, so that those of a doorbell are one piece.
  std::unique_ptr<LocalPiece[]> pieces_;
  std::unique_ptr<std::byte[]> inlined_;
  std::uint32_t tail_ = 0;
  std::uint32_t head_ = 0;
  Instant earliest_ = kNoTimer;

  // Sending: everything before send_ has left, and send_offset_ bytes of it.
  std::uint32_t send_ = 0;
  std::uint64_t send_offset_ = 0;
  std::vector<std::byte> spill_;  // Goes out before send_: see I1.
  std::size_t spill_sent_ = 0;

  // Receiving.
  FrameParser parser_{FrameParser::Kind::kReplies};
  std::unique_ptr<std::byte[]> input_;
  std::uint32_t reply_slot_ = 0;
  std::uint32_t placed_ = 0;  // Payload bytes of the reply so far.
};

// Inline: once per request, from both source files.

inline void InitiatorStream::complete(const Slot& slot, ErrorCode status, std::uint64_t value,
                                      std::uint32_t length) {
  if (status == ErrorCode::kOk && has(slot.flags, RequestFlags::kUnsignalled)) {
    --account_.requests;
    return;
  }
  Completion& completion = finished_.add(account_);
  completion.user_data = slot.user_data;
  completion.value = value;
  completion.endpoint = options_.endpoint;
  completion.length = length;
  completion.immediate = 0;
  completion.status = status;
  completion.op = slot.op;
  completion.flags = slot.flags;
}

inline void InitiatorStream::drop_retired() {
  while (tail_ != head_ && slot(tail_).state == State::kRetired) {
    if (send_ == tail_) ++send_;  // It expired before it was sent.
    ++tail_;
  }
}

}  // namespace yonder::fabric::tcp
