// The conformance suite of the fabric on the tcp provider.
#include <gtest/gtest.h>

#include "yonder/fabric/conformance/bed.h"
#include "yonder/fabric/tcp/tcp.h"
#include "yonder/os/mapping.h"

namespace yonder::fabric::conformance {
namespace {

class TcpBed final : public Bed {
 public:
  TcpBed() : target_(tcp::open().value()), initiator_(tcp::open().value()) {}

  Fabric& target() override { return *target_; }
  Fabric& initiator() override { return *initiator_; }
  std::string listen_address() override { return "tcp://127.0.0.1:0"; }
  Memory allocate(std::size_t bytes) override {
    auto mapping = std::make_shared<os::Mapping>(os::Mapping::anonymous({.bytes = bytes}).value());
    return {.bytes = mapping->bytes().first(bytes), .owner = mapping};
  }

 private:
  std::unique_ptr<Fabric> target_;
  std::unique_ptr<Fabric> initiator_;
};

std::unique_ptr<Bed> make_plain_bed() { return std::make_unique<TcpBed>(); }

INSTANTIATE_TEST_SUITE_P(Tcp, Conformance, ::testing::Values(Provider{"plain", make_plain_bed}),
                         provider_name);

}  // namespace
}  // namespace yonder::fabric::conformance
