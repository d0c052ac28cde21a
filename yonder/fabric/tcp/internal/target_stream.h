#pragma once
// The target's end of a stream: takes requests, executes them in order, answers.
//
//   receive ─► FrameParser ─► checks ─► copy from/to the region ─► OutputBuffer ─► send
//
// One call of progress() reads what the socket has, executes all of it and sends
// all answers at once. Three things make it stop reading, so that the peer is
// slowed down by TCP and nothing here grows:
//   - the output is full: the peer does not read its answers;
//   - a message has no receive buffer yet (until 7/8 of its budget are over, so
//     that kReceiverNotReady still arrives within the peer's deadline);
//   - a long read is being answered, one chunk per free piece of output.
// A peer that stops in the middle of a frame, or does not take its answers, for
// the stall timeout is dropped; so is one whose header drips in.
//
//   phase             | leaves when                       | to
//   ------------------+-----------------------------------+--------------------
//   kNextRequest      | a header is complete              | by operation
//   kAnsweringRead    | the last chunk is in the output,  | kNextRequest
//                     | or the region was revoked (abort) |
//   kStoring          | the payload is stored, or region  | kNextRequest or
//                     | revoked (the rest is dropped)     | kAwaitingReceive
//   kAwaitingReceive  | a receive is there / time is up   | kDelivering, kNext…/ kDropping
//   kDelivering       | the message is complete           | kNextRequest
//   kDropping         | the payload is over: answer with  | kNextRequest
//                     | the reason                        |
//
// Concurrency: whoever holds the mutex of its group. Lifetime: owns the
// transport; shares the Inbox with the endpoint.

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>

#include "yonder/base/result.h"
#include "yonder/base/time.h"
#include "yonder/fabric/tcp/internal/binding.h"
#include "yonder/fabric/tcp/internal/buffers.h"
#include "yonder/fabric/tcp/internal/inbox.h"
#include "yonder/fabric/tcp/internal/parser.h"
#include "yonder/fabric/tcp/internal/region_table.h"
#include "yonder/fabric/tcp/internal/transport.h"

namespace yonder::fabric::tcp {

// What a target needs of its fabric.
struct TargetContext {
  const RegionTable& regions;
  const std::atomic<std::uint64_t>& epoch;
  // How long a peer may stop in the middle of a frame, or not take its answers.
  Duration stall_timeout = std::chrono::seconds(10);
};

class TargetStream {
 public:
  static constexpr std::size_t kInputBytes = 128 * 1024;
  // Room for two chunks: one on its way to the peer, one being made.
  static constexpr std::size_t kOutputBytes = 2 * (kChunkBytes + 4096);

  // `inbox` is null for a passive connection: messages are then refused.
  TargetStream(std::unique_ptr<Transport> transport, const TargetContext& context, TenantId tenant,
               std::shared_ptr<Inbox> inbox);
  ~TargetStream();
  // Keeps `token` for as long as the stream lives: whoever counts connections.
  void keep(std::shared_ptr<void> token) { kept_ = std::move(token); }
  // On whose behalf a passive stream is served; only compared.
  void set_owner(const void* owner) { owner_ = owner; }
  const void* owner() const { return owner_; }

  // Does what can be done now. True if anything was. Errors: why the stream is
  // over (kConnectionLost, kMalformedFrame, kPeerTooSlow, kOsError).
  Result<bool> progress(Instant now);

  // What to sleep on, and until when at most.
  bool wants_read() const { return !is_blocked(); }
  bool wants_write() const { return !output_.empty() || transport_->unsent(); }
  // True if progress() has more to do without any event.
  bool wants_turn() const { return again_; }
  Instant next_timer() const;

  bool awaits_receive() const { return phase_ == Phase::kAwaitingReceive; }

  const Transport& transport() const { return *transport_; }
  const std::shared_ptr<Inbox>& inbox() const { return inbox_; }

 private:
  enum class Phase : std::uint8_t {
    kNextRequest,
    kAnsweringRead,
    kStoring,
    kAwaitingReceive,
    kDelivering,
    kDropping,
  };

  // Reading and sending.
  Result<bool> receive();
  Result<bool> flush();
  // Executes what is in the input buffer, as far as nothing blocks.
  Result<void> pump();
  void answer_short_reads(std::span<const std::byte>& input);
  bool is_blocked() const;
  bool waits_for_peer() const { return wants_write() || (!is_blocked() && parser_.mid_frame()); }

  // Requests. Each function leaves the phase in which the stream goes on.
  void begin();
  void begin_read();
  void begin_write();
  void begin_atomic();
  void begin_send();
  // These return false while they must wait.
  bool answer_read();
  bool answer_long_read();
  bool continue_await();
  void take_payload(std::span<const std::byte>& input);
  void use_payload(std::span<const std::byte> bytes);
  void end_payload();
  void abort_payload();
  void await_receive();
  void drop_payload(ErrorCode why);

  // The checks of the target side. After kOk the memory may be used until the end
  // of pump().
  ErrorCode open_access(std::uint64_t length);
  ErrorCode check_binding(const RequestHeader& request, std::uint64_t length) const;
  bool touch_for_new_request(std::uint64_t key);
  bool touch_again();

  void reply(ErrorCode status, std::uint64_t value = 0);
  // A whole answer of at most one chunk. Requires room for it, and a touch.
  void put_short_read();
  void put_read_reply(std::uint32_t id, std::span<const std::byte> memory);
  void put_reply_header(ErrorCode status, std::uint32_t length, std::uint64_t value);
  void put_chunk_header(ErrorCode status, std::uint32_t length);
  void hold_binding();
  void release_binding();
  void give_back_receive();

  std::unique_ptr<Transport> transport_;
  const TargetContext context_;
  const TenantId tenant_;
  const std::shared_ptr<Inbox> inbox_;
  std::shared_ptr<void> kept_;
  const void* owner_ = nullptr;

  FrameParser parser_{FrameParser::Kind::kRequests};
  std::unique_ptr<std::byte[]> input_;
  std::size_t input_begin_ = 0;
  std::size_t input_end_ = 0;
  OutputBuffer output_{kOutputBytes};
  bool again_ = false;
  bool advanced_ = false;  // Since it was cleared: a header was completed, or payload moved.
  Instant now_;            // Of the current progress().
  Instant last_progress_;

  // The request under way.
  Phase phase_ = Phase::kNextRequest;
  const RequestHeader& request_ = parser_.request();
  ErrorCode status_ = ErrorCode::kOk;  // What to answer after the payload.
  std::shared_ptr<Binding> binding_;   // Of the last key used.
  std::uint64_t binding_key_ = 0;
  Binding::Touch touch_;          // Of binding_; held while pump() runs, for all its requests.
  bool holds_request_ = false;    // begin_request() was called on binding_.
  bool answered_header_ = false;  // Of a long read.
  std::uint32_t done_bytes_ = 0;
  WordWriter writer_;
  ReceiveRequest receive_;
  bool holds_receive_ = false;
  Instant receive_deadline_;
};

}  // namespace yonder::fabric::tcp
