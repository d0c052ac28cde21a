#pragma once
// A fabric: one provider's way to move bytes, and the maker of everything else.
//
//   auto fabric = fabric::open("tcp:");                             // open/open.h
//   auto region = fabric->register_memory({.memory = bytes});
//   auto listener = fabric->listen({.address = "tcp://127.0.0.1:0", .passive = true});
//   … elsewhere …
//   auto queue = fabric->create_completion_queue({});
//   auto endpoint = fabric->connect({.address = "tcp://127.0.0.1:7400"}, **queue);
//
// A fabric is target and initiator at once; one process usually needs one. Where
// a target's CPU must help (tcp; on shm for memory that cannot be mapped), the
// fabric's own service thread does it, so that one-sided operations never need
// the application of the target.
//
// Concurrency: all functions from any thread, except where a class says less.
// Lifetime: outlives everything it made; the destructor checks that.

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "yonder/base/result.h"
#include "yonder/base/time.h"
#include "yonder/fabric/completion_queue.h"
#include "yonder/fabric/endpoint.h"
#include "yonder/fabric/handshake.h"
#include "yonder/fabric/region.h"
#include "yonder/fabric/types.h"

namespace yonder::fabric {

// Receive buffers shared by many endpoints: a server with a thousand clients
// posts a hundred buffers, not a hundred for each. Completions go to the queue
// of the endpoint whose message took the buffer.
//
// Concurrency: any thread. Lifetime: outlives its endpoints; buffers are borrowed
// until their completion, or until close().
class ReceiveQueue {
 public:
  virtual ~ReceiveQueue() = default;
  // All or none; kQueueFull if they do not fit.
  virtual Result<void> post(std::span<const ReceiveRequest> receives) = 0;
  // Gives back all buffers without completions. The endpoints must be closed.
  virtual void close() = 0;
};

struct ReceiveQueueOptions {
  std::uint32_t capacity = 1024;
};

struct EndpointOptions {
  std::uint32_t depth = 128;                           // requests outstanding
  std::uint32_t receive_depth = 128;                   // own receives; ignored with a shared queue
  std::uint32_t max_message = 64 * 1024;               // longest kSend, both ways
  Duration default_timeout = std::chrono::seconds(5);  // of requests that give no deadline
  ReceiveQueue* receive_queue = nullptr;               // take receives from here
};

struct ConnectOptions {
  std::string address;
  EndpointOptions endpoint;
  Identity identity;
  Duration connect_timeout = std::chrono::seconds(5);
  // After a lost connection: try again with exponential backoff between the two
  // bounds, for as long as the endpoint is open. What was outstanding has failed.
  bool reconnect = true;
  Duration min_backoff = std::chrono::milliseconds(10);
  Duration max_backoff = std::chrono::seconds(1);
};

// Bytes a listener gives every initiator at connect time: enough for a few
// tokens, from which everything else can be read one-sidedly.
inline constexpr std::size_t kMaxGreetingBytes = 128;

struct ListenOptions {
  std::string address;
  EndpointOptions endpoint;
  Identity identity;
  std::vector<std::byte> greeting;
  // Accepted endpoints are attached to these in turn.
  std::vector<CompletionQueue*> completion_queues;
  // No endpoints for the application: peers only reach the registered regions.
  // Needs no completion queue and no accept().
  bool passive = false;
  std::uint32_t max_connections = 4096;
};

// Takes connections until closed. Hand-shakes run on the fabric's service
// thread, so connect() succeeds before anybody calls accept(); accepted
// endpoints wait in a queue of at most max_connections.
//
// Concurrency: any thread. Lifetime: closing it leaves accepted endpoints alone;
// passive connections end with it.
class Listener {
 public:
  virtual ~Listener() = default;
  // The address to connect to, with the port that the system chose.
  virtual std::string address() const = 0;
  // The next connection; kDeadlineExceeded, kClosed.
  virtual Result<std::unique_ptr<Endpoint>> accept(Deadline deadline) = 0;
  virtual std::size_t connection_count() const = 0;
  virtual void close() = 0;
};

// What the provider does by nature; the conformance suite and the layers above
// adapt to it.
struct Capabilities {
  std::string_view provider;            // "shm", "tcp", "verbs", "sim"
  AtomicsBy atomics = AtomicsBy::kCpu;  // of newly registered regions
  bool target_cpu_idle = false;         // one-sided operations need no CPU at the target
  bool rebind = false;                  // Region::rebind works
  bool on_demand_paging = false;
  bool copies_unregistered = false;                  // local buffers outside a region cost a copy
  bool virtual_time = false;                         // clock() advances only by waiting
  bool enforces_tenants = true;                      // false: the NIC does not know tenants (verbs)
  bool enforces_revocation_on_hostile_peers = true;  // false: shm peers keep their mapping
};

class Fabric {
 public:
  virtual ~Fabric() = default;
  Fabric(const Fabric&) = delete;
  Fabric& operator=(const Fabric&) = delete;

  virtual const Capabilities& capabilities() const = 0;
  virtual const Clock& clock() const = 0;

  // kInvalidArgument for empty memory or no rights, kOutOfMemory and
  // kResourceExhausted from the system, kUnsupported for what the device lacks.
  virtual Result<Region> register_memory(const RegisterOptions& options) = 0;

  virtual Result<std::unique_ptr<CompletionQueue>> create_completion_queue(
      const CompletionQueueOptions& options) = 0;
  virtual Result<std::unique_ptr<ReceiveQueue>> create_receive_queue(const ReceiveQueueOptions& options) = 0;

  // kAddressInvalid, kAlreadyExists (address in use), kInvalidArgument.
  virtual Result<std::unique_ptr<Listener>> listen(const ListenOptions& options) = 0;

  // Connects and shakes hands: kConnectionRefused, kProtocolMismatch,
  // kAuthenticationFailed, kDeadlineExceeded, kResourceExhausted.
  virtual Result<std::unique_ptr<Endpoint>> connect(const ConnectOptions& options,
                                                    CompletionQueue& queue) = 0;

  // Requests and connections of an older epoch are refused with kStaleEpoch from
  // now on (where the target's CPU sees them: handshakes everywhere, requests on
  // tcp). Only grows.
  virtual void raise_epoch(Epoch epoch) = 0;

 protected:
  Fabric() = default;
};

}  // namespace yonder::fabric
