#include "bench/objects/node_bed.h"

#include <fmt/format.h>
#include <time.h>
#include <unistd.h>

#include <atomic>
#include <utility>

#include "yonder/fabric/open/open.h"

namespace yonder::bench {

double thread_cpu_seconds() {
  timespec ts{};
  ::clock_gettime(CLOCK_THREAD_CPUTIME_ID, &ts);
  return static_cast<double>(ts.tv_sec) + static_cast<double>(ts.tv_nsec) * 1e-9;
}

namespace {

std::string address_for(std::string_view provider) {
  static std::atomic<unsigned> next{0};
  if (provider == "tcp") return "tcp://127.0.0.1:0";
  if (provider == "verbs") return "verbs://*:0";
  return fmt::format("shm:object-bench-{}-{}?inprocess=off", ::getpid(), next++);
}

}  // namespace

Result<NodeBed> NodeBed::create(std::string_view provider, std::uint64_t memory, node::Correction correction,
                                std::uint32_t pollers) {
  const std::string address = address_for(provider);
  NodeBed bed;
  YONDER_TRY(server_fabric, fabric::open(address));
  YONDER_TRY(client_fabric, fabric::open(address));
  bed.server_fabric_ = std::move(server_fabric);
  bed.client_fabric_ = std::move(client_fabric);
  node::NodeOptions options;
  options.ports = {{.fabric = bed.server_fabric_.get(), .address = address}};
  options.heap.limit = Bytes(memory);
  options.heap.correction = correction;
  options.heap.seed = 1;
  options.pollers = pollers;
  options.compaction.automatic = false;
  YONDER_TRY(server, node::Server::create(options));
  bed.server_ = std::move(server);
  return bed;
}

Result<std::unique_ptr<client::Session>> NodeBed::connect(client::SessionOptions options) const {
  options.address = server_->address();
  return client::Session::connect(*client_fabric_, options);
}

}  // namespace yonder::bench
