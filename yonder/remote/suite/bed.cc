#include "yonder/remote/suite/bed.h"

#include "yonder/base/check.h"

namespace yonder::remote::suite {

Client::Client(fabric::Fabric& fabric, const std::string& address, const fabric::EndpointOptions& options,
               fabric::Scheduler* shared)
    : fabric_(fabric), shared_(shared) {
  queue_ = fabric.create_completion_queue({}).value();
  set_pool({});
  if (shared_ == nullptr) own_ = std::make_unique<fabric::Scheduler>(*queue_);
  fabric::EndpointOptions patient = options;
  patient.default_timeout = ::yonder::testing::kPatience;
  endpoint_ =
      fabric
          .connect({.address = address, .endpoint = patient, .connect_timeout = ::yonder::testing::kPatience},
                   *queue_)
          .value();
}

void Client::set_pool(const BufferPoolOptions& options) {
  pool_.reset();
  pool_ = BufferPool::create(fabric_, options).value();
}

void RemoteSuite::SetUp() {
  place_ = GetParam().make();
  file_ = std::make_unique<os::Memfd>(os::Memfd::create({.size = kRegionBytes}).value());
  memory_ =
      os::Mapping::of_file(file_->fd(), {.bytes = kRegionBytes, .protection = os::Protection::kReadWrite})
          .value();
  region_ = place_->server_fabric()
                .register_memory({.memory = memory(),
                                  .rights = fabric::Rights::kAll,
                                  .backing = fabric::Backing{.fd = file_->fd().get()}})
                .value();
  listener_ = place_->server_fabric().listen({.address = place_->listen_address(), .passive = true}).value();
}

void RemoteSuite::TearDown() {
  // The first client's scheduler may be everybody's.
  while (!clients_.empty()) clients_.pop_back();
  listener_.reset();
  region_ = {};
  place_.reset();
}

Client& RemoteSuite::connect(const fabric::EndpointOptions& options) {
  fabric::Scheduler* const shared =
      is_virtual() && !clients_.empty() ? &clients_.front()->scheduler() : nullptr;
  clients_.push_back(
      std::make_unique<Client>(place_->client_fabric(), listener_->address(), options, shared));
  return *clients_.back();
}

}  // namespace yonder::remote::suite
