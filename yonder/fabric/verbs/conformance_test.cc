// The conformance suite of the fabric on a real RDMA device (in tests: Soft-RoCE
// in a guest).
#include <gtest/gtest.h>

#include <string>

#include "yonder/base/prng.h"
#include "yonder/base/secure_random.h"
#include "yonder/fabric/conformance/bed.h"
#include "yonder/fabric/verbs/device_test_support.h"
#include "yonder/fabric/verbs/verbs.h"
#include "yonder/os/mapping.h"

namespace yonder::fabric::conformance {
namespace {

const verbs::RequireDevice kDevice;

class VerbsBed final : public Bed {
 public:
  explicit VerbsBed(std::unique_ptr<Fabric> fabric)
      : fabric_(std::move(fabric)),
        ip_(verbs::device_ip(*fabric_)),
        ports_(secure_random_u64().value_or(1)) {}

  Fabric& target() override { return *fabric_; }
  Fabric& initiator() override { return *fabric_; }
  std::string listen_address() override {
    return "verbs://" + ip_ + ":" + std::to_string(20000 + ports_.below(40000));
  }
  Memory allocate(std::size_t bytes) override {
    auto mapping = os::Mapping::anonymous({.bytes = bytes});
    if (!mapping) return {};
    auto owner = std::make_shared<os::Mapping>(std::move(*mapping));
    return {.bytes = owner->bytes(0, bytes), .backing = {}, .owner = owner};
  }

 private:
  std::unique_ptr<Fabric> fabric_;
  const std::string ip_;
  Prng ports_;
};

std::unique_ptr<Bed> make_verbs_bed() {
  auto fabric = verbs::open();
  if (!fabric) {
    ADD_FAILURE() << fabric.error();
    return nullptr;
  }
  return std::make_unique<VerbsBed>(std::move(*fabric));
}

INSTANTIATE_TEST_SUITE_P(Verbs, Conformance, ::testing::Values(Provider{"rc", make_verbs_bed}),
                         provider_name);

}  // namespace
}  // namespace yonder::fabric::conformance
