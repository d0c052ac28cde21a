#pragma once
// The test bed of the rpc suite: a server and a way to make clients, on some
// provider. One suite runs unchanged on all of them; what differs is here.
//
// Concurrency: the test's thread, unless a function says more.
// Lifetime: clients and queues go before the bed.

#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <memory>
#include <string>
#include <vector>

#include "yonder/fabric/fabric.h"
#include "yonder/fabric/scheduler.h"
#include "yonder/fabric/testbed/provider.h"
#include "yonder/rpc/client.h"
#include "yonder/rpc/server.h"
#include "yonder/rpc/suite/methods.h"
#include "yonder/sync/mutex.h"

namespace yonder::rpc::suite {

using fabric::testbed::Place;
using fabric::testbed::Provider;
using fabric::testbed::provider_name;

// A server with the methods of methods.h. In virtual time it is driven, elsewhere
// it has one poller and one worker, unless the test changed `options`.
class RpcSuite : public ::testing::TestWithParam<Provider> {
 protected:
  struct Client1 {
    std::unique_ptr<fabric::CompletionQueue> queue;
    std::unique_ptr<fabric::Scheduler> scheduler;
    ClientPtr client;
    Client* operator->() const { return client.get(); }
  };

  void SetUp() override;
  void TearDown() override;

  // Starts the server with `options`. Once per test.
  void serve();
  Client1 connect(ClientOptions options = {});
  Deadline soon(Duration duration = std::chrono::seconds(10)) const {
    return Deadline::after(place_->client_fabric().clock(), duration);
  }
  // Lets the server work until `done` says so; false after ten seconds.
  template <typename F>
  bool eventually(F&& done) {
    const Deadline deadline = soon();
    while (!done()) {
      if (deadline.passed(place_->client_fabric().clock().now())) return false;
      pass_time(std::chrono::milliseconds(1));
    }
    return true;
  }
  void pass_time(Duration duration);
  bool is_driven() const { return options.pollers == 0; }

  // Responders that Later keeps. Any thread.
  std::size_t kept() {
    sync::LockGuard lock(mutex_);
    return kept_.size();
  }
  std::vector<Responder<Later>> take_kept() {
    sync::LockGuard lock(mutex_);
    return std::exchange(kept_, {});
  }
  void open_gate() { gate_.store(true); }

  ServerOptions options;
  std::unique_ptr<Place> place_;
  std::unique_ptr<Server> server_;
  std::unique_ptr<fabric::CompletionQueue> idle_queue_;  // To wait in.
  std::atomic<bool> gate_ = false;
  std::atomic<int> slow_running_ = 0;

 private:
  void register_methods();

  sync::Mutex mutex_;
  std::vector<Responder<Later>> kept_ YONDER_GUARDED_BY(mutex_);
};

}  // namespace yonder::rpc::suite
