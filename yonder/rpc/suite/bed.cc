#include "yonder/rpc/suite/bed.h"

#include <stdexcept>
#include <thread>

namespace yonder::rpc::suite {

void RpcSuite::SetUp() {
  place_ = GetParam().make();
  ASSERT_NE(place_, nullptr);
  const bool virtual_time = place_->server_fabric().capabilities().virtual_time;
  options.address = place_->listen_address();
  options.pollers = virtual_time ? 0 : 1;
  options.workers = virtual_time ? 0 : 1;
  options.max_connections = 64;
  options.max_request = 16 * 1024;
  options.max_response = 16 * 1024;
  auto queue = place_->client_fabric().create_completion_queue({.capacity = 16});
  ASSERT_TRUE(queue) << queue.error();
  idle_queue_ = *std::move(queue);
}

void RpcSuite::TearDown() {
  open_gate();
  take_kept().clear();
  server_.reset();
  idle_queue_.reset();
  place_.reset();
}

void RpcSuite::serve() {
  auto server = Server::create(place_->server_fabric(), options);
  ASSERT_TRUE(server) << server.error();
  server_ = *std::move(server);
  register_methods();
  ASSERT_TRUE(server_->start());
}

void RpcSuite::register_methods() {
  server_->handle<Echo>([](const Context&, const Number& n) -> Result<Number> { return n; });
  server_->handle<Repeat>([](const Context&, const Text& text) -> Result<Text> {
    Text answer;
    for (std::uint32_t i = 0; i < text.times; ++i) answer.text += text.text;
    return answer;
  });
  server_->handle<Fail>([](const Context&, const Number& n) -> Result<Empty> {
    if (n.value == 0) throw std::runtime_error("thrown by a test");
    return fail(static_cast<ErrorCode>(n.value), "asked to");
  });
  server_->handle<Later>([this](const Context&, const Number&, Responder<Later> responder) {
    sync::LockGuard lock(mutex_);
    kept_.push_back(std::move(responder));
  });
  server_->handle<WhoAmI>([](const Context& context, const Empty&) -> Result<Number> {
    return Number{std::uint64_t{context.tenant.value()} << 32 | context.epoch.value()};
  });
  server_->handle<Slow>(
      [this](const Context&, const Number& n) -> Result<Number> {
        ++slow_running_;
        while (n.value == 1 && !gate_.load()) std::this_thread::sleep_for(std::chrono::milliseconds(1));
        --slow_running_;
        return n;
      },
      {.run = Run::kWorker});
}

RpcSuite::Client1 RpcSuite::connect(ClientOptions client_options) {
  Client1 made;
  auto queue = place_->client_fabric().create_completion_queue({});
  EXPECT_TRUE(queue) << queue.error();
  if (!queue) return made;
  made.queue = *std::move(queue);
  made.scheduler = std::make_unique<fabric::Scheduler>(*made.queue);
  client_options.scheduler = made.scheduler.get();
  auto client = Client::connect(place_->client_fabric(), server_->address(), *made.queue, client_options);
  EXPECT_TRUE(client) << client.error();
  if (client) made.client = *std::move(client);
  return made;
}

void RpcSuite::pass_time(Duration duration) {
  // In virtual time this runs the world, elsewhere it sleeps.
  (void)idle_queue_->wait(soon(duration));
}

}  // namespace yonder::rpc::suite
