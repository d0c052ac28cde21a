#include "yonder/fabric/conformance/bed.h"

#include <cstring>

namespace yonder::fabric::conformance {

// A program that links the suite but instantiates none of it fails to mean
// anything; gtest would call that an error, which is what we want.

void Conformance::SetUp() {
  bed_ = GetParam().make_bed();
  ASSERT_NE(bed_, nullptr);
  memory_ = bed_->allocate(kBytes);
  region_ = register_region(memory_, Rights::kAll);
  ASSERT_TRUE(region_);
  token_ = region_.token();
  auto client_queue = bed_->initiator().create_completion_queue({});
  auto server_queue = bed_->target().create_completion_queue({});
  ASSERT_TRUE(client_queue) << client_queue.error();
  ASSERT_TRUE(server_queue) << server_queue.error();
  client_queue_ = std::move(*client_queue);
  server_queue_ = std::move(*server_queue);
  ListenOptions options{.address = bed_->listen_address(), .completion_queues = {server_queue_.get()}};
  options.greeting.resize(RegionToken::kEncodedBytes);
  token_.encode(std::span(options.greeting).first<RegionToken::kEncodedBytes>());
  auto listener = bed_->target().listen(options);
  ASSERT_TRUE(listener) << listener.error();
  listener_ = std::move(*listener);
  client_ = connect();
  ASSERT_NE(client_, nullptr);
  server_ = accept();
  ASSERT_NE(server_, nullptr);
}

void Conformance::TearDown() {
  client_.reset();
  server_.reset();
  listener_.reset();
  client_queue_.reset();
  server_queue_.reset();
  region_ = Region();
  memory_ = {};
  bed_.reset();
}

Region Conformance::register_region(const Memory& memory, Rights rights) {
  auto region =
      bed_->target().register_memory({.memory = memory.bytes, .rights = rights, .backing = memory.backing});
  EXPECT_TRUE(region) << region.error();
  return region ? std::move(*region) : Region();
}

std::unique_ptr<Endpoint> Conformance::connect(EndpointOptions options) {
  auto endpoint =
      bed_->initiator().connect({.address = listener_->address(), .endpoint = options}, *client_queue_);
  EXPECT_TRUE(endpoint) << endpoint.error();
  return endpoint ? std::move(*endpoint) : nullptr;
}

std::unique_ptr<Endpoint> Conformance::accept() {
  auto endpoint = listener_->accept(soon());
  EXPECT_TRUE(endpoint) << endpoint.error();
  return endpoint ? std::move(*endpoint) : nullptr;
}

std::vector<Completion> Conformance::collect(CompletionQueue& queue, std::size_t count, Duration limit) {
  std::vector<Completion> all;
  const Deadline deadline = Deadline::after(queue.clock(), limit);
  while (all.size() < count && !deadline.passed(queue.clock().now())) {
    Completion batch[32];
    const std::size_t got = queue.poll(std::span(batch).first(std::min<std::size_t>(32, count - all.size())));
    all.insert(all.end(), batch, batch + got);
    if (got == 0) (void)queue.wait(deadline);
  }
  return all;
}

}  // namespace yonder::fabric::conformance
