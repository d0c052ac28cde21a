#pragma once
// One connection at a receiver of a shuffle: who it is, and whether it still is.
//
// One-sided writes tell a receiver nothing about their sender. So a receive is kept
// posted on every accepted connection: the first message is the hello, eight bytes
// with the sender's number; after it the receive only ever ends with the connection,
// and that is how a receiver learns that a sender is gone.
//
//   state     | message                     | connection ends
//   ----------+-----------------------------+----------------
//   silent    | seated if it is a hello,    | gone
//             | else gone (closed)          |
//   seated    | gone (closed): none is due  | gone
//
// Concurrency: the thread of the endpoint's queue. Lifetime: the receive points here:
// close(), and poll the queue until is_quiet(), before it goes.

#include <array>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <memory>
#include <optional>
#include <utility>

#include "yonder/fabric/completion_queue.h"
#include "yonder/fabric/endpoint.h"

namespace yonder::structures::internal {

class InboxSeat final : private fabric::Operation {
 public:
  explicit InboxSeat(std::unique_ptr<fabric::Endpoint> endpoint)
      : Operation(&InboxSeat::on_message), endpoint_(std::move(endpoint)) {
    post_receive();
  }
  InboxSeat(const InboxSeat&) = delete;
  InboxSeat& operator=(const InboxSeat&) = delete;

  // The number it said, which may be any.
  const std::optional<std::uint64_t>& sender() const { return sender_; }
  bool is_gone() const { return gone_; }
  bool is_quiet() const { return !posted_; }
  void close() {
    gone_ = true;
    endpoint_->close();
  }

 private:
  static void on_message(Operation& self, const fabric::Completion& completion) {
    auto& seat = static_cast<InboxSeat&>(self);
    seat.posted_ = false;
    if (!completion.ok() || seat.sender_ || completion.length != sizeof(std::uint64_t)) {
      seat.gone_ = true;
      return;
    }
    std::uint64_t sender = 0;
    std::memcpy(&sender, seat.hello_.data(), sizeof sender);
    seat.sender_ = sender;
    if (!seat.gone_) seat.post_receive();
  }

  void post_receive() {
    const fabric::ReceiveRequest receive{
        .user_data = reinterpret_cast<std::uintptr_t>(static_cast<Operation*>(this)),
        .buffer = fabric::LocalPiece::of(hello_),
        .flags = fabric::RequestFlags::kOperation};
    posted_ = endpoint_->post_receive({&receive, 1}).has_value();
    if (!posted_) gone_ = true;
  }

  const std::unique_ptr<fabric::Endpoint> endpoint_;
  std::array<std::byte, sizeof(std::uint64_t)> hello_{};
  std::optional<std::uint64_t> sender_;
  bool posted_ = false;
  bool gone_ = false;
};

}  // namespace yonder::structures::internal
