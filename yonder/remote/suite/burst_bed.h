#pragma once
// The test bed of burst buffers: one client and one buffer at a time.
//
// Concurrency: the test's thread. Lifetime: of one test.

#include <cstring>
#include <memory>
#include <span>

#include "yonder/remote/burst_buffer.h"
#include "yonder/remote/suite/bed.h"

namespace yonder::remote::suite {

class BurstSuite : public RemoteSuite {
 protected:
  void SetUp() override {
    RemoteSuite::SetUp();
    client_ = &connect();
  }
  void TearDown() override {
    if (buffer_) buffer_->abandon();
    buffer_.reset();
    RemoteSuite::TearDown();
  }
  BurstBuffer& make(const BurstOptions& options, std::uint64_t length = kRegionBytes) {
    fabric::RegionToken token = this->token();
    token.length = length;
    buffer_ = BurstBuffer::create(place_->client_fabric(), client_->port(), token, options).value();
    return *buffer_;
  }
  bool target_has(std::uint64_t offset, std::span<const std::byte> bytes) const {
    return std::memcmp(memory().data() + offset, bytes.data(), bytes.size()) == 0;
  }

  Client* client_ = nullptr;
  std::unique_ptr<BurstBuffer> buffer_;
};

}  // namespace yonder::remote::suite
