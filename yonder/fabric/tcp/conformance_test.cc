// The conformance suite of the fabric on the tcp provider: plain, and under TLS
// with certificates and with a pre-shared key.
#include <gtest/gtest.h>

#include "yonder/fabric/conformance/bed.h"
#include "yonder/fabric/tcp/internal/test_certificates.h"
#include "yonder/fabric/tcp/tcp.h"
#include "yonder/os/mapping.h"

namespace yonder::fabric::conformance {
namespace {

class TcpBed final : public Bed {
 public:
  explicit TcpBed(std::string security)
      : security_(std::move(security)), target_(tcp::open().value()), initiator_(tcp::open().value()) {}

  Fabric& target() override { return *target_; }
  Fabric& initiator() override { return *initiator_; }
  std::string listen_address() override { return "tcp://127.0.0.1:0" + security_; }
  Memory allocate(std::size_t bytes) override {
    auto mapping = std::make_shared<os::Mapping>(os::Mapping::anonymous({.bytes = bytes}).value());
    return {.bytes = mapping->bytes().first(bytes), .owner = mapping};
  }

 private:
  const std::string security_;
  std::unique_ptr<Fabric> target_;
  std::unique_ptr<Fabric> initiator_;
};

std::unique_ptr<Bed> make_plain_bed() { return std::make_unique<TcpBed>(""); }
std::unique_ptr<Bed> make_certificate_bed() {
  return std::make_unique<TcpBed>(tcp::TestCertificates::instance().member("server"));
}
std::unique_ptr<Bed> make_psk_bed() {
  return std::make_unique<TcpBed>(tcp::TestCertificates::instance().psk());
}

INSTANTIATE_TEST_SUITE_P(Tcp, Conformance,
                         ::testing::Values(Provider{"plain", make_plain_bed},
                                           Provider{"certificates", make_certificate_bed},
                                           Provider{"psk", make_psk_bed}),
                         provider_name);

}  // namespace
}  // namespace yonder::fabric::conformance
