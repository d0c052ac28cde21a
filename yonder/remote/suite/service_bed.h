#pragma once
// The test bed of what is done by request: a server of locks and sequencers, and one
// client. In virtual time the client's scheduler drives the server, too.
//
// Concurrency: the test's thread. Lifetime: of one test.

#include <chrono>
#include <memory>

#include "yonder/fabric/scheduler.h"
#include "yonder/remote/atomics_service.h"
#include "yonder/remote/suite/bed.h"
#include "yonder/rpc/client.h"
#include "yonder/rpc/server.h"
#include "yonder/testing/patience.h"

namespace yonder::remote::suite {

class ServiceSuite : public RemoteSuite {
 protected:
  void SetUp() override {
    RemoteSuite::SetUp();
    service_ = std::make_unique<AtomicsService>(place_->server_fabric().clock(),
                                                AtomicsServiceOptions{.locks = 4, .sequencers = 4});
    server_ = rpc::Server::create(place_->server_fabric(), {.address = place_->listen_address(),
                                                            .pollers = is_virtual() ? 0U : 1U,
                                                            .max_connections = 4})
                  .value();
    service_->attach(*server_);
    ASSERT_TRUE(server_->start());
    queue_ = place_->client_fabric().create_completion_queue({}).value();
    scheduler_ = std::make_unique<fabric::Scheduler>(*queue_);
    if (is_virtual()) scheduler_->spawn(server_->serve(*scheduler_));
    client_ =
        rpc::Client::connect(place_->client_fabric(), server_->address(), *queue_,
                             {.default_timeout = ::yonder::testing::kPatience, .scheduler = scheduler_.get()})
            .value();
  }
  void TearDown() override {
    client_.reset();
    server_->begin_stop();
    if (is_virtual()) {
      EXPECT_TRUE(scheduler_->run(Deadline::after(queue_->clock(), ::yonder::testing::kPatience)));
    }
    server_.reset();
    scheduler_.reset();
    queue_.reset();
    RemoteSuite::TearDown();
  }

  std::unique_ptr<AtomicsService> service_;
  std::unique_ptr<rpc::Server> server_;
  std::unique_ptr<fabric::CompletionQueue> queue_;
  std::unique_ptr<fabric::Scheduler> scheduler_;
  rpc::ClientPtr client_;
};

}  // namespace yonder::remote::suite
