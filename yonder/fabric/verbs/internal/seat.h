#pragma once
// A seat: the accepting end of a connection, as the service thread and the
// endpoint share it.
//
// The service thread puts a link into the seat when the initiator connects, and
// another one each time it resumes. The endpoint takes them out when it looks.
// A passive seat has no endpoint: its links live and die on the service thread.
//
//   state     | resume                  | take            | close
//   ----------+-------------------------+-----------------+--------
//   open      | link replaced, bell     | the new link    | closed
//   closed    | refused (kNotFound)     | –               | –
//
// An initiator may resume again before the endpoint has looked. What it sent on the link
// in between was acknowledged and lies in the completion queue, if receives are shared: so
// such links are kept, dead, until the endpoint has taken their messages, too.
//
// Concurrency: any thread; the lock covers the link. Lock order: the listener's
// before the seat's before the link's.
// Lifetime: shared by the listener's hall (for resuming) and the endpoint.

#include <cstdint>
#include <memory>
#include <mutex>
#include <vector>

#include "yonder/fabric/fabric.h"
#include "yonder/fabric/verbs/internal/link.h"

namespace yonder::fabric::verbs {

class Hall;
class VerbsQueue;

class Seat final : public std::enable_shared_from_this<Seat> {
 public:
  struct Parts {
    SeatId id;
    std::shared_ptr<Hall> hall;
    Link::Parts link;
    Agreement agreement;
    EndpointOptions options;
    VerbsQueue* queue;       // Null: passive.
    std::uint32_t reserved;  // Completions reserved in the queue.
  };
  explicit Seat(Parts parts) : parts_(std::move(parts)) {}

  SeatId id() const { return parts_.id; }
  const Parts& parts() const { return parts_; }
  bool is_passive() const { return parts_.queue == nullptr; }

  // Service thread: answers a connection request with a new link. The link it
  // replaces is dead before the peer hears of the new one, so that no late packet
  // can be executed after newer requests. On error nothing has changed and the
  // caller rejects the request: kOverloaded, if the endpoint has not looked for too many.
  Result<void> seat_link(const rdma_cm_event& request, const Reply& reply, std::uint64_t taken_by_peer);

  // Endpoint: the link that arrived since the last call, or null.
  struct Arrival {
    std::shared_ptr<Link> link;
    std::uint64_t taken_by_peer = 0;  // Messages of ours that the peer has taken in all.
    // Dead links between the last one and this, oldest first; the endpoint retires them.
    std::vector<std::shared_ptr<Link>> skipped;
  };
  Arrival take_arrival();
  // No more links. Retires those that nobody has taken (all, if passive).
  void close();
  // The same for a seat that no endpoint has taken: also gives its reservation
  // in the queue back.
  void abandon();

 private:
  // Each costs a queue pair, and a refused access of a peer.
  static constexpr std::size_t kMaxSkipped = 16;

  void on_down(Link& link);

  const Parts parts_;
  std::mutex mutex_;
  std::shared_ptr<Link> link_;                  // guarded by mutex_: the newest
  std::uint64_t taken_by_peer_ = 0;             // guarded by mutex_
  bool arrived_ = false;                        // guarded by mutex_: link_ was not taken yet
  std::vector<std::shared_ptr<Link>> skipped_;  // guarded by mutex_: see Arrival
  bool closed_ = false;                         // guarded by mutex_
};

}  // namespace yonder::fabric::verbs
