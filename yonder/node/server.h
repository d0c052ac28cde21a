#pragma once
// Server: a memory node that others can reach.
//
//   auto server = node::Server::create({.ports = {{.fabric = fabric.get(), .address = "shm:node-1"}},
//                                       .heap = {.limit = 4_GiB}});
//   … clients connect to (*server)->address() …
//   YONDER_TRY_VOID((*server)->stop(Deadline::after(clock, 5s)));
//
// A server is a Heap, its memory registered for reading with every fabric it has a
// port on (superblocks as they come, and the block table), an rpc server per port
// for everything that changes something (protocol.h), and the housekeeping:
// compaction when a class is fragmented, expiry of what dead clients left behind.
// Beside the heap it has extents, which clients read and write as they like (extents.h), and
// on which it runs functions for them, in other processes (offload/host.h).
//
// Whose memory is it: of objects, clients get the right to read, never to write. A client that
// dies holds nothing: objects are locked by handlers only, for the time of one
// copy; what it had staged expires.
//
// Validators. What a copy over the fabric proves depends on the fabric, so unless
// the options say otherwise the heap gets: *reread* if all ports are shm, else
// *checksum*. (*lines* is sound only where a line is fetched whole: not on shm, tcp
// or Soft-RoCE.) Errors if the options ask for one that a port makes unsound.
//
// With `pollers` > 0 the server has threads. With 0 it is driven, as in a
// simulation: spawn serve() on a scheduler.
//
//   state     | request    | compaction                  | begin_stop | stop
//   ----------+------------+-----------------------------+------------+---------
//   serving   | executed   | in slices                   | stopping   | stopped
//   stopping  | kStopping  | ends with the present slice | –          | stopped
//   stopped   | –          | –                           | –          | –
//
// Concurrency: all functions from any thread, except serve() (the driving one).
// Lifetime: fabrics, clock and registry outlive the server. The destructor stops.

#include <atomic>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "yonder/base/result.h"
#include "yonder/base/time.h"
#include "yonder/fabric/fabric.h"
#include "yonder/fabric/scheduler.h"
#include "yonder/fabric/task.h"
#include "yonder/node/extents.h"
#include "yonder/node/heap.h"
#include "yonder/node/nic_mapping.h"
#include "yonder/offload/host.h"
#include "yonder/sync/mutex.h"

namespace yonder::telemetry {
class Registry;
}

namespace yonder::node {

namespace internal {
class AllNicViews;
class Lanes;
class Port;
class Shortage;
struct NodeMetrics;
}  // namespace internal

struct PortOptions {
  fabric::Fabric* fabric = nullptr;
  std::string address;  // Where to listen.
  fabric::Identity identity;
};

// When and how much to compact. May be changed while the server runs.
struct CompactionPolicy {
  bool automatic = true;
  double threshold = 1.25;                  // slots per live object from which a class is due …
  std::uint64_t min_waste_bytes = 1 << 20;  // … if so much could be saved
  SliceLimits slice;
  // Between two slices of a run. A slice may take a processor from a thread that
  // serves, so what service loses is slice.time / pause: 4 %.
  Duration pause = std::chrono::milliseconds(5);
  Duration interval = std::chrono::milliseconds(100);  // between two looks at all classes
};

struct NodeOptions {
  std::vector<PortOptions> ports;  // At least one; different fabrics.
  // The heap. Its validator is chosen by the server unless `validator` is set
  // below; on_superblock and view_observer are the server's.
  HeapOptions heap;
  std::optional<Validator> validator;
  NicMapping mapping = NicMapping::kAuto;  // If heap.remap is kMmap.
  CompactionPolicy compaction;
  ExtentLimits extents;
  // Functions that clients may call on their extents (offload/host.h); without a directory: none.
  offload::HostOptions functions;
  std::uint32_t pollers = 1;  // threads per port; 0: driven
  // How long a poller that has nothing to do looks for work before it sleeps. Less answers
  // later and leaves more of the machine to others: functions, say.
  Duration spin = std::chrono::microseconds(50);
  std::uint32_t max_data = 16 * 1024;    // bytes of objects in one message
  std::uint32_t max_connections = 1024;  // per port
  // Allocations that wait for memory at the limit, of all ports; beyond it kOverloaded.
  // A share of the requests that a poller can have under way (512), so that those that
  // need no memory have room.
  std::uint32_t max_waiting = 128;
  std::uint64_t max_staged_bytes = std::uint64_t{256} << 20;  // of large objects under way, per port
  Duration stage_timeout = std::chrono::seconds(10);
  Duration stop_timeout = std::chrono::seconds(5);  // of the destructor
  telemetry::Registry* registry = nullptr;          // yonder_node_…; null: counted for nobody
};

struct NodeStats {
  HeapStats heap;
  CompactionCounters compaction;
  std::uint64_t requests = 0;
  std::uint64_t refused = 0;
  std::uint64_t connections = 0;
  std::uint64_t staged_bytes = 0;
  std::uint64_t extent_bytes = 0;
  std::uint64_t waiting = 0;  // Allocations, for memory.
  offload::HostStats functions;
  bool kept = false;  // Somebody would have the memory if this process ended, as far as it knows.
};

class Server {
 public:
  // kInvalidArgument for options that make no sense (no port, a validator that is
  // not sound on a port, more than one port or thread for a driven server); kUnsupported
  // for remapping on a fabric whose readers could not follow (nic_mapping.h); errors of
  // Heap::create, offload::Host::create, Fabric::register_memory and rpc::Server::create.
  static Result<std::unique_ptr<Server>> create(const NodeOptions& options);
  ~Server();
  Server(const Server&) = delete;
  Server& operator=(const Server&) = delete;

  // Where clients connect to. Requires port < number of ports.
  std::string address(std::size_t port = 0) const;

  Heap& heap() { return *heap_; }
  ExtentStore& extents() { return *extents_; }
  NodeStats stats() const;

  // Compacts now what is worth it, in slices, on the calling thread, whatever the
  // policy says about thresholds. Returns the bytes of frames freed.
  std::uint64_t compact();
  CompactionPolicy compaction_policy() const;
  void set_compaction_policy(const CompactionPolicy& policy);

  // A driven server: requests and compaction. Ends when the server has stopped.
  fabric::Task<void> serve(fabric::Scheduler& scheduler);

  void begin_stop();
  // Refuses new requests, lets those under way finish, ends compaction between two
  // slices. kDeadlineExceeded as rpc::Server::stop. Idempotent.
  Result<void> stop(Deadline deadline);
  bool stopped() const;

 private:
  explicit Server(const NodeOptions& options);

  Result<void> open_heap();
  Result<void> open_ports();
  // One for each thread that runs handlers.
  std::size_t lane_count() const;
  void keep_house();
  // What is done now and then.
  void tidy();
  // Something waits for memory.
  void wake_housekeeper();
  // Hands the memory over again if the keeper was restarted.
  void refresh_keeper();
  // One slice of a class that is due. True: there is more to do soon.
  bool compact_some(const CompactionPolicy& policy);
  bool is_due(const ClassStats& stats, const CompactionPolicy& policy) const;
  fabric::Task<void> compact_driven(fabric::Scheduler& scheduler);
  void publish_gauges() const;

  const NodeOptions options_;
  // The later ones use the earlier ones.
  std::unique_ptr<telemetry::Registry> own_registry_;
  std::unique_ptr<internal::NodeMetrics> metrics_;
  std::unique_ptr<ExtentStore> extents_;
  std::unique_ptr<offload::Host> host_;  // Null: no functions.
  std::vector<std::unique_ptr<internal::Port>> ports_;
  std::unique_ptr<internal::AllNicViews> views_;
  std::unique_ptr<Heap> heap_;
  std::unique_ptr<internal::Lanes> lanes_;
  std::unique_ptr<internal::Shortage> shortage_;

  std::atomic<bool> stopping_{false};
  std::atomic<bool> is_kept_{false};  // Set by the housekeeper.
  mutable sync::Mutex mutex_;
  sync::Condition wakes_;  // The housekeeper.
  CompactionPolicy policy_ YONDER_GUARDED_BY(mutex_);
  sync::Mutex stop_mutex_;  // Before mutex_.
  std::thread housekeeper_;
  // The housekeeper's: the class whose run is under way (count(): none), and the
  // one to look at next.
  std::size_t due_class_ = SIZE_MAX;
  std::size_t next_class_ = 0;
};

}  // namespace yonder::node
