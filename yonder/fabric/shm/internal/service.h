#pragma once
// The service thread of a fabric: handshakes, the control sockets, served memory.
//
// One thread per fabric does everything that must not need the application: it
// takes connections, tells peers how to reach regions, executes accesses to
// memory that peers cannot map, notices peers that are gone, and reconnects. It
// sleeps in epoll; after serving a request it spins for about 50 µs, because the
// next one is probably near.
//
//   what epoll watches     | when it fires
//   -----------------------+-----------------------------------------------------
//   a Door (listening)     | accept; the new socket becomes an Incoming
//   an Incoming            | Hello: check, Welcome, it becomes a Link; or refused
//   a Connector's socket   | Welcome: it becomes a Link; or refused, try again later
//   a Link's socket        | Resolve, Resolved, Wake; the end of the peer
//
// Nothing here blocks on a peer: sockets are non-blocking, a packet that does not
// fit breaks that connection only, a half-done handshake is dropped at its
// deadline, and of too many half-done ones the oldest.
//
// Concurrency: public functions from any thread. Lock order: a Door's
// admission, mutex_, the Door's mutex, a queue's; no lock is held while a region is mapped or a hazard is
// waited for. Lifetime: the fabric's; stops in the destructor.

#include <atomic>
#include <condition_variable>
#include <deque>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <thread>
#include <unordered_map>
#include <variant>
#include <vector>

#include "yonder/fabric/fabric.h"
#include "yonder/fabric/shm/internal/handshake.h"
#include "yonder/fabric/shm/internal/link.h"
#include "yonder/fabric/shm/internal/place.h"
#include "yonder/fabric/shm/internal/region_table.h"
#include "yonder/os/epoll.h"
#include "yonder/os/steady_clock.h"

namespace yonder::fabric::shm {

// A listening address.
struct Door {
  Place place;
  ListenOptions options;
  std::uint64_t token = 0;
  std::size_t next_queue = 0;  // service thread

  // Held while a connection is admitted or an unaccepted one is undone: close()
  // takes it, so that the queues are not used after it returned.
  std::mutex admission;
  std::mutex mutex;
  os::Socket socket;  // Guarded by mutex, once shared.
  std::condition_variable arrived;
  std::deque<std::shared_ptr<Link>> waiting;  // Guarded by mutex.
  std::size_t connections = 0;                // Guarded by mutex; links and handshakes.
  bool closed = false;                        // Guarded by mutex.
};

// An initiator's wish for a connection, for as long as its endpoint is open.
struct Connector {
  ConnectOptions options;
  Place place;
  EndpointId endpoint{0};
  ShmCompletionQueue* queue = nullptr;

  // All guarded by Service::mutex_.
  os::Socket socket;  // while a handshake is under way
  std::uint64_t token = 0;
  Contact contact;
  Instant due;  // end of the handshake, or of the pause before the next
  Duration backoff{0};
  bool is_trying = false;  // a handshake is under way
  bool is_paused = false;  // waiting for the next attempt
  bool is_stopped = false;
  bool was_open = false;                               // the first connection was made
  std::optional<Result<std::shared_ptr<Link>>> first;  // for connect()
  std::shared_ptr<Link> link;                          // the newest, also if the endpoint has not heard of it
};

class Service {
 public:
  struct Options {
    StateFile& states;
    const RareFence& fence;
    RegionTable& regions;
    std::uint64_t process = 0;
  };
  static Result<std::unique_ptr<Service>> create(const Options& options);
  ~Service();

  Result<std::shared_ptr<Door>> listen(Place place, const ListenOptions& options);
  // Takes no more connections, drops those nobody accepted and the passive ones.
  void close(const std::shared_ptr<Door>& door);

  // Waits for the first connection; afterwards the connector keeps it up.
  Result<std::shared_ptr<Link>> connect(const std::shared_ptr<Connector>& connector);
  // Ends the connector and its newest connection. `known` is the one its endpoint
  // holds; what belongs to a newer one is given back here.
  void stop(const std::shared_ptr<Connector>& connector, const std::shared_ptr<Link>& known);
  // The connection made last, null if none was made or it was stopped.
  std::shared_ptr<Link> newest(const Connector& connector);
  // Ends a connection.
  void drop(const std::shared_ptr<Link>& link);

  // V2 and V3 of region_table.h.
  void quiesce(std::uint64_t hazard);
  EndpointId next_endpoint() { return EndpointId{next_endpoint_.fetch_add(1)}; }
  void raise_epoch(Epoch epoch);

 private:
  struct Incoming {
    std::shared_ptr<Door> door;
    os::Socket socket;
    Instant due;
  };
  struct Connected {
    std::shared_ptr<Link> link;
    std::shared_ptr<Door> door;  // one of the two
    std::shared_ptr<Connector> connector;
  };
  using Watched =
      std::variant<std::shared_ptr<Door>, std::shared_ptr<Incoming>, std::shared_ptr<Connector>, Connected>;
  using Lock = std::unique_lock<std::mutex>;

  Service(const Options& options, Board board, os::Epoll epoll, os::EventFd bell);

  // service.cc: the loop
  void run();
  bool serve_marked();
  bool serve_all();
  void sleep();
  void handle(const os::EpollEvent& event);
  void handle_timers();
  Instant next_timer();

  // service_connect.cc: doors, handshakes, links
  void take_connections(const std::shared_ptr<Door>& door);
  void pause(const std::shared_ptr<Door>& door);
  void take_hello(std::uint64_t token, const std::shared_ptr<Incoming>& incoming);
  Result<void> admit(const std::shared_ptr<Incoming>& incoming, const HelloPacket& hello,
                     std::vector<os::Fd> fds);
  Result<End> make_end(Door& door);
  void release_queue(const End& end);
  void unmake_queue_end(Door& door, const Link& link);
  void refuse(std::uint64_t token, const std::shared_ptr<Incoming>& incoming, ErrorCode status);
  void forget_incoming(std::uint64_t token, const std::shared_ptr<Incoming>& incoming);
  Result<void> attempt(const std::shared_ptr<Connector>& connector, const Lock& lock);
  void end_attempt(const std::shared_ptr<Connector>& connector, const Lock& lock);
  void failed(const std::shared_ptr<Connector>& connector, const Error& error, const Lock& lock);
  void on_welcome(const std::shared_ptr<Connector>& connector);
  End end_of(const Connector& connector) const;
  Result<void> add_link(Connected connected, const Lock& lock);
  bool remove_link(const std::shared_ptr<Link>& link, Connected& removed);

  // service_link.cc: one connection
  void on_link_event(const Connected& connected, std::uint32_t bits);
  Result<bool> take_packet(const std::shared_ptr<Link>& link);
  Result<void> answer_resolve(const Link& link, RegionKey key);
  Result<void> deliver_resolved(const std::shared_ptr<Link>& link, const ResolvedPacket& packet,
                                std::vector<os::Fd> fds);
  void lost(const std::shared_ptr<Link>& link);
  bool serve(const std::shared_ptr<Link>& link);
  void serve_one(Link& link, std::uint32_t slot);

  StateFile& states_;
  const RareFence& fence_;
  RegionTable& regions_;
  os::SteadyClock clock_;
  Board board_;
  os::Epoll epoll_;
  os::EventFd bell_;  // wakes the loop: stopping, new timers
  Self self_;
  std::atomic<bool> stopping_{false};
  std::atomic<std::uint64_t> epoch_{0};
  std::atomic<std::uint64_t> next_endpoint_{1};

  std::mutex mutex_;
  std::condition_variable connected_;
  std::unordered_map<std::uint64_t, Watched> watched_;           // Guarded by mutex_.
  std::map<std::uint64_t, std::shared_ptr<Incoming>> incoming_;  // Guarded by mutex_; oldest first.
  std::vector<std::shared_ptr<Connector>> timed_;                // Guarded by mutex_; trying or paused.
  std::vector<std::shared_ptr<Link>> by_entry_;                  // Guarded by mutex_; service board.
  std::vector<std::pair<Instant, std::shared_ptr<Door>>> paused_doors_;  // Guarded by mutex_.
  std::uint64_t next_token_ = 1;                                         // Guarded by mutex_; 0 is the bell.

  std::thread thread_;  // Last: uses all of the above.
};

}  // namespace yonder::fabric::shm
