#pragma once
// A region that threads of this process share over a real provider, each by a connection
// of its own: where the stress tests of the structures run.
//
// Concurrency: the bed by any thread once it is made; a Thread by its thread.
// Lifetime: threads go before the bed, the bed before its place.

#include <gtest/gtest.h>

#include <memory>

#include "yonder/fabric/fabric.h"
#include "yonder/fabric/scheduler.h"
#include "yonder/fabric/testbed/place.h"
#include "yonder/fabric/testbed/shm_place.h"
#include "yonder/fabric/testbed/tcp_place.h"
#include "yonder/os/mapping.h"
#include "yonder/os/memfd.h"
#include "yonder/remote/port.h"
#include "yonder/testing/patience.h"

namespace yonder::structures::suite {

using fabric::testbed::Place;
using fabric::testbed::ShmPlace;
using fabric::testbed::TcpPlace;

class RealBed {
 public:
  RealBed(Place& place, std::uint64_t bytes)
      : place_(place),
        file_(os::Memfd::create({.size = bytes}).value()),
        memory_(os::Mapping::of_file(file_.fd(), {.bytes = bytes, .protection = os::Protection::kReadWrite})
                    .value()),
        region_(place.server_fabric()
                    .register_memory({.memory = memory_.bytes(),
                                      .rights = fabric::Rights::kAll,
                                      .backing = fabric::Backing{.fd = file_.fd().get()}})
                    .value()),
        listener_(
            place.server_fabric().listen({.address = place.listen_address(), .passive = true}).value()) {}

  fabric::RegionToken token() const { return region_.token(); }
  fabric::Fabric& fabric() const { return place_.client_fabric(); }
  std::string address() const { return listener_->address(); }

 private:
  Place& place_;
  os::Memfd file_;
  os::Mapping memory_;
  fabric::Region region_;
  std::unique_ptr<fabric::Listener> listener_;
};

// A thread's way to the bed.
struct Thread {
  explicit Thread(const RealBed& bed)
      : queue(bed.fabric().create_completion_queue({}).value()),
        scheduler(*queue),
        endpoint(
            bed.fabric()
                .connect({.address = bed.address(), .connect_timeout = ::yonder::testing::kPatience}, *queue)
                .value()),
        port(*endpoint, scheduler, ::yonder::testing::kPatience) {}

  std::unique_ptr<fabric::CompletionQueue> queue;
  fabric::Scheduler scheduler;
  std::unique_ptr<fabric::Endpoint> endpoint;
  remote::Port port;
};

}  // namespace yonder::structures::suite
