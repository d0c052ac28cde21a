#pragma once
// One sender's side of one ring: the batch being built, the room that is left, and
// the requests under way.
//
//   positions (bytes since the beginning)
//     consumed_ ≤ the receiver's consumed word ≤ tail seen by the receiver ≤ tail_
//     tail_ - consumed_ ≤ ring_bytes                                          (B1)
//
// B1 holds because a batch is opened only where it fits (room_for), and consumed_ is
// old news at worst, which makes the room look smaller. A place of the ring is free to
// be written when the receiver is through with it; a place of the mirror only when the
// write from it has completed here too (E3: until then a NIC may send it again), so
// room counts from the smaller of consumed_ and written_.
//
// Room is learned by reading the consumed word: one read at a time, asked for as soon
// as half of the ring is in use, so that the answer is there before it is needed.
//
// Concurrency: the thread of the endpoint's queue. Lifetime: requests under way point
// here and into the memory: close the endpoint before either goes.

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "yonder/base/error.h"
#include "yonder/fabric/completion_queue.h"
#include "yonder/fabric/endpoint.h"
#include "yonder/fabric/types.h"
#include "yonder/structures/internal/shuffle_builder.h"
#include "yonder/structures/internal/shuffle_wire.h"

namespace yonder::structures::internal {

struct OutboxOptions {
  InboxGreeting inbox;          // of the receiver
  std::uint32_t receiver = 0;   // its number among ours, for error details
  std::uint32_t sender = 0;     // ours among the receiver's
  std::uint32_t in_flight = 0;  // batches whose tail is not acknowledged
  std::uint64_t batch_bytes = 0;
  Duration timeout{};  // of each request
  BatchBuilderOptions builder;
};

class Outbox {
 public:
  // Requests one outbox may have outstanding: skip, data and tail of each batch, the
  // read of the consumed word, the hello.
  static constexpr std::uint32_t depth_for(std::uint32_t in_flight) { return 3 * in_flight + 2; }
  // Memory of one outbox: the mirror, a tail word per batch in flight, the word read
  // back, the hello.
  static constexpr std::uint64_t memory_for(std::uint64_t ring_bytes, std::uint32_t in_flight) {
    return round_to(ring_bytes + (in_flight + 2) * sizeof(std::uint64_t), 64);
  }

  // `memory` is registered, has memory_for() bytes and is aligned to 8.
  Outbox(std::unique_ptr<fabric::Endpoint> endpoint, std::span<std::byte> memory,
         const OutboxOptions& options);
  ~Outbox() = default;  // Requires is_quiet().
  Outbox(const Outbox&) = delete;
  Outbox& operator=(const Outbox&) = delete;

  // Tells the receiver whose connection this is. Before anything else.
  void post_hello();
  // Takes the entry into a batch, posting the one before if it is full. False: no
  // room at the moment, nothing was done.
  bool try_add(const ShuffleEntry& entry);
  // Posts the open batch, if there is one. Always has room.
  void post_batch();
  // Posts the end of a round or stream. False: no room at the moment.
  bool try_end(BatchKind kind);
  // Posts what the endpoint refused before. To be called while waiting for anything.
  void post_rest();
  // Whether it is worth going on after try_add() said no: the entry would be taken, and
  // more after it. (Who goes on as soon as one batch fits waits again after it, and sends
  // at the pace of his pauses; the receiver empties the ring, so there is no need to.)
  bool is_roomy_for(const ShuffleEntry& entry) const;
  // Asks how much room there is, unless that is under way.
  void ask_for_room();

  // Nothing is under way: gathered entries are no longer used.
  bool is_written() const { return launched_ == done_ && !hello_pending_; }
  // No completion is to come.
  bool is_quiet() const { return is_written() && !asking_; }
  // The receiver has taken everything that was posted.
  bool is_consumed() const { return consumed_ == tail_; }
  // The first failure, with the receiver's number as detail.
  const std::optional<Error>& error() const { return error_; }

  std::uint64_t entry_limit() const { return options_.inbox.shape.max_batch(); }
  void close() {
    endpoint_->close();
    give_up();
  }

 private:
  using Operation = fabric::Operation;
  // Each completion arrives at an Operation that knows its outbox.
  struct Handler : Operation {
    Handler(Outbox& of, Done done) : Operation(done), outbox(of) {}
    Outbox& outbox;
  };
  // The requests of one batch in flight. They are all signalled, because the one of the
  // tail may complete before those ahead of it (a lost answer), and the batch's place is
  // in use until the last has. They are kept until the endpoint has taken them: it may
  // refuse for a while (on verbs, when the buffers through which unregistered memory
  // goes are in use).
  struct Flight : Handler {
    explicit Flight(Outbox& of) : Handler(of, &Outbox::on_write) {}
    std::vector<fabric::LocalPiece> pieces;
    fabric::LocalPiece skip_piece;
    fabric::LocalPiece tail_piece;
    std::array<fabric::WorkRequest, 3> requests;
    std::uint32_t count = 0;      // requests
    std::uint32_t posted = 0;     // of these
    std::uint32_t under_way = 0;  // of these
    std::uint64_t end = 0;        // the tail that it publishes
  };
  static void on_write(Operation& self, const fabric::Completion& completion);
  static void on_room(Operation& self, const fabric::Completion& completion);
  static void on_hello(Operation& self, const fabric::Completion& completion);

  bool room_for(std::uint64_t bytes) const;
  // From tail_ to the end of the ring, if `bytes` do not fit before it.
  std::uint64_t skip_before(std::uint64_t bytes) const;
  // Of the batch that is opened for an entry.
  std::uint64_t place_for(const ShuffleEntry& entry) const;
  bool try_open(const ShuffleEntry& entry);
  void launch(std::span<const fabric::LocalPiece> pieces, std::uint64_t skip, std::uint64_t bytes);
  // Flights whose requests have all completed are done, oldest first.
  void land();
  // What was not posted never will be.
  void give_up();
  // False: it was not posted, and error() says why.
  bool post_alone(const fabric::WorkRequest& request);
  fabric::WorkRequest write_request(Flight& flight, std::span<const fabric::LocalPiece> pieces,
                                    fabric::RemoteAddress to) const;
  void failed(ErrorCode code, const char* what);

  std::uint64_t next_ticket() { return options_.inbox.secret + number_++; }
  std::uint64_t place_of(std::uint64_t position) const {
    return position & (options_.inbox.shape.ring_bytes - 1);
  }
  std::byte* word(std::uint64_t index) const;
  fabric::LocalPiece piece_of(std::byte* data, std::uint64_t bytes) const;

  const std::unique_ptr<fabric::Endpoint> endpoint_;
  const std::span<std::byte> memory_;
  const OutboxOptions options_;
  const std::span<std::byte> mirror_;
  const fabric::RemoteAddress ring_;
  const fabric::RemoteAddress tail_word_;
  const fabric::RemoteAddress consumed_word_;
  BatchBuilder builder_;

  std::uint64_t tail_ = 0;       // everything before it is posted
  std::uint64_t open_skip_ = 0;  // of the open batch
  std::uint64_t number_ = 0;     // of the next batch or skip
  std::uint64_t launched_ = 0;   // batches
  std::uint64_t posted_ = 0;     // of these, the first so many the endpoint has taken
  std::uint64_t done_ = 0;       // … and completed
  std::uint64_t written_ = 0;    // everything before it is acknowledged
  std::uint64_t consumed_ = 0;   // by the receiver, as far as we know
  bool asking_ = false;
  bool hello_pending_ = false;
  std::optional<Error> error_;

  std::vector<Flight> flights_;  // Of batch n at n % in_flight.
  Handler room_done_{*this, &Outbox::on_room};
  Handler hello_done_{*this, &Outbox::on_hello};
};

}  // namespace yonder::structures::internal
