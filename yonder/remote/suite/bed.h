#pragma once
// The test bed of the toolkit: a region behind a passive listener, and clients that
// reach it, on some provider. One suite runs unchanged on all of them.
//
// In virtual time all clients share the first one's scheduler, which drives them all.
//
// Concurrency: the test's thread. Lifetime: clients go before the bed.

#include <gtest/gtest.h>

#include <memory>
#include <span>
#include <string>
#include <vector>

#include "yonder/fabric/fabric.h"
#include "yonder/fabric/scheduler.h"
#include "yonder/fabric/testbed/provider.h"
#include "yonder/os/mapping.h"
#include "yonder/os/memfd.h"
#include "yonder/remote/buffer_pool.h"
#include "yonder/remote/port.h"
#include "yonder/testing/patience.h"

namespace yonder::remote::suite {

using fabric::testbed::Place;
using fabric::testbed::Provider;
using fabric::testbed::provider_name;

// A connection with a thread's worth of things on it.
class Client {
 public:
  Client(fabric::Fabric& fabric, const std::string& address, const fabric::EndpointOptions& options,
         fabric::Scheduler* shared);

  Port port() { return {*endpoint_, scheduler(), ::yonder::testing::kPatience}; }
  fabric::Endpoint& endpoint() { return *endpoint_; }
  fabric::Scheduler& scheduler() { return shared_ != nullptr ? *shared_ : *own_; }
  BufferPool& pool() { return *pool_; }
  // In place of the usual pool.
  void set_pool(const BufferPoolOptions& options);

 private:
  fabric::Fabric& fabric_;
  std::unique_ptr<fabric::CompletionQueue> queue_;
  std::unique_ptr<BufferPool> pool_;
  std::unique_ptr<fabric::Scheduler> own_;
  fabric::Scheduler* shared_;
  std::unique_ptr<fabric::Endpoint> endpoint_;
};

class RemoteSuite : public ::testing::TestWithParam<Provider> {
 protected:
  static constexpr std::size_t kRegionBytes = 1 << 20;

  void SetUp() override;
  void TearDown() override;

  Client& connect(const fabric::EndpointOptions& options = {});
  bool is_virtual() const { return place_->client_fabric().capabilities().virtual_time; }
  // The target's memory as it is now: what all completed requests made of it.
  std::span<std::byte> memory() const { return memory_.bytes().first(kRegionBytes); }
  fabric::RegionToken token() const { return region_.token(); }
  RemoteAddress at(std::uint64_t offset) const { return token().at(offset); }

  std::unique_ptr<Place> place_;

 private:
  std::unique_ptr<os::Memfd> file_;
  os::Mapping memory_;
  fabric::Region region_;
  std::unique_ptr<fabric::Listener> listener_;
  std::vector<std::unique_ptr<Client>> clients_;
};

}  // namespace yonder::remote::suite
