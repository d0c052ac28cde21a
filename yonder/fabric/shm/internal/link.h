#pragma once
// One side of a connection: the shared memory, the peer's boards, the socket.
//
// A Link is made when the handshake is over and never reconnects: a new
// connection is a new Link. It is passive: the endpoint's thread moves messages
// and requests through it, the service thread answers the peer's requests and
// watches the socket, and revocations look at the peer's hazard.
//
// Concurrency: three parties, each with its own members (below). lost() and
// cut() by anybody.
// Lifetime: shared by the endpoint and the service; the memory stays mapped until
// both are done with it, also when the peer is gone.

#include <atomic>
#include <cstdint>
#include <memory>
#include <vector>

#include "yonder/base/result.h"
#include "yonder/fabric/handshake.h"
#include "yonder/fabric/shm/internal/board.h"
#include "yonder/fabric/shm/internal/control.h"
#include "yonder/fabric/shm/internal/fence.h"
#include "yonder/fabric/shm/internal/handoff.h"
#include "yonder/fabric/shm/internal/layout.h"
#include "yonder/fabric/shm/internal/mailbox.h"
#include "yonder/fabric/shm/internal/message_ring.h"
#include "yonder/fabric/shm/internal/state_file.h"
#include "yonder/os/eventfd.h"
#include "yonder/os/socket.h"

namespace yonder::fabric::shm {

enum class Side : std::uint8_t { kInitiator = 0, kTarget = 1 };

// Everything the handshake has found out.
struct LinkParts {
  Side side = Side::kInitiator;
  os::Socket socket;
  LinkShape shape;
  os::Mapping memory;  // the link file
  StateView peer_state;
  os::Mapping peer_service;  // the peer's service board
  os::Mapping peer_queue;    // its queue's board; invalid if it is passive
  os::EventFd peer_event = os::EventFd::adopt(os::Fd());
  Contact peer;
  Contact ours;
  bool fence = false;         // light_fence() must fence
  bool same_process = false;  // the peer's addresses are ours
  std::uint32_t max_message = 0;
  std::uint64_t connection = 0;  // see handoff.h
  Agreement agreement;
  std::vector<std::byte> greeting;
};

// Aligned: its hot members are written with every message, and no other object may
// sit in their lines.
class alignas(64) Link {
 public:
  // The names of the files a handshake carries, in order; the target puts the
  // link file in front.
  static constexpr std::size_t kHelloFds = 4;  // state, service board, queue board, queue event

  Link(LinkParts parts, EndpointId endpoint, std::shared_ptr<Mailbox> mailbox);

  // ------------------------------------------------ anybody
  const LinkParts& parts() const { return parts_; }
  EndpointId endpoint() const { return endpoint_; }
  // The local queue's mailbox; null for a passive connection.
  const std::shared_ptr<Mailbox>& mailbox() const { return mailbox_; }
  bool lost() const { return lost_.load(std::memory_order_acquire); }
  void set_lost() { lost_.store(true, std::memory_order_release); }
  // Ends the connection: both service threads will see it.
  void cut() const { parts_.socket.shut_down(); }

  Lane& our_lane() const { return *our_lane_; }
  Lane& their_lane() const { return *their_lane_; }
  std::byte* slot_data(bool of_our_requests, std::uint32_t slot) const {
    const int d = of_our_requests ? ours() : 1 - ours();
    return parts_.memory.data() + parts_.shape.data_at(d) + std::size_t{slot} * kSlotBytes;
  }

  // Around every publication and consumption; nothing but in sanitizer builds.
  void publishes() const { handoff_publish(parts_.connection); }
  void consumes() const { handoff_consume(parts_.connection); }

  // ------------------------------------------------ the endpoint's thread
  MessageSender sender;
  MessageReceiver receiver;

  // After something was published: wakes the peer's queue if it sleeps.
  void nudge_queue() const {
    light_fence(parts_.fence);
    // relaxed: see fence.h; a stale "awake" is excluded by the sleeper's barrier.
    if (queue_line_ != nullptr && queue_line_->sleeping.load(std::memory_order_relaxed) != 0) [[unlikely]]
      parts_.peer_event.ring();
  }
  // After a message: also marks the peer's board.
  void announce_message() const {
    queue_mark_.mark();
    nudge_queue();
  }
  // After a served request.
  void announce_request() const;
  // Asks the peer about a key; false if its socket is full now.
  bool ask(RegionKey key) const;

  // Receive credits of the peer, and ours for the peer (see endpoint.h).
  std::uint32_t peer_posted() const { return our_lane().posted.load(std::memory_order_acquire); }
  std::uint32_t peer_receive_size(std::uint32_t n) const {
    return peer_sizes_[n & peer_sizes_mask_].load(std::memory_order_relaxed);
  }
  std::uint32_t peer_receive_depth() const { return peer_sizes_mask_ + 1; }
  void post_receive(std::uint32_t n, std::uint32_t size) const {
    std::atomic<std::uint32_t>& place = our_sizes_[n & our_sizes_mask_];
    // Equal sizes, the usual case, leave the line shared by both sides.
    if (place.load(std::memory_order_relaxed) != size) place.store(size, std::memory_order_relaxed);
    // release: pairs with acquire in peer_posted(); the size is there.
    their_lane_->posted.store(n + 1, std::memory_order_release);
  }
  // Null if the peer posts receives of its own.
  const NoticeLine* peer_shared_receives() const { return receive_line_; }

  // ------------------------------------------------ the service thread
  std::uint32_t next_served = 0;  // running number of the peer's next request
  std::uint64_t token = 0;        // set before the link is shared; see service.h

 private:
  int ours() const { return static_cast<int>(parts_.side); }
  Lane& lane(int d) const { return *reinterpret_cast<Lane*>(parts_.memory.data() + parts_.shape.lane_at(d)); }
  std::atomic<std::uint32_t>* sizes(int d) const {
    return reinterpret_cast<std::atomic<std::uint32_t>*>(parts_.memory.data() + parts_.shape.sizes_at(d));
  }

  // Where things are, computed once: the data path only follows pointers.
  Lane* our_lane_ = nullptr;
  Lane* their_lane_ = nullptr;
  std::atomic<std::uint32_t>* peer_sizes_ = nullptr;  // receives that the peer has posted
  std::atomic<std::uint32_t>* our_sizes_ = nullptr;   // receives that we have posted
  std::uint32_t peer_sizes_mask_ = 0;
  std::uint32_t our_sizes_mask_ = 0;

  LinkParts parts_;
  const EndpointId endpoint_;
  const std::shared_ptr<Mailbox> mailbox_;
  BoardMark queue_mark_;
  BoardMark service_mark_;
  const NoticeLine* queue_line_ = nullptr;
  const NoticeLine* service_line_ = nullptr;
  const NoticeLine* receive_line_ = nullptr;
  std::byte no_board_[1] = {};  // Where a passive peer's marks go.
  std::atomic<bool> lost_{false};
};

// A new link file of this shape, sealed. kOutOfMemory, kResourceExhausted.
struct LinkFile {
  os::Fd fd;
  os::Mapping mapping;
};
Result<LinkFile> create_link_file(const LinkShape& shape);

}  // namespace yonder::fabric::shm
