// The conformance suite on two simulated hosts, with each NIC we model.
#include <sys/mman.h>

#include "yonder/fabric/conformance/bed.h"
#include "yonder/fabric/sim/world.h"

namespace yonder::fabric::conformance {
namespace {

class SimBed final : public Bed {
 public:
  explicit SimBed(const sim::NicModel& model)
      : world_({.seed = 42, .hosts = 2, .host = {.nics = {{.model = model}}}}) {}

  Fabric& target() override { return world_.host(0).fabric(); }
  Fabric& initiator() override { return world_.host(1).fabric(); }
  std::string listen_address() override { return "sim://host0:0"; }
  Memory allocate(std::size_t bytes) override {
    void* const memory = ::mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (memory == MAP_FAILED) return {};
    return {.bytes = {static_cast<std::byte*>(memory), bytes},
            .backing = {},
            .owner = std::shared_ptr<void>(memory, [bytes](void* p) { ::munmap(p, bytes); })};
  }

 private:
  sim::World world_;
};

std::unique_ptr<Bed> connectx3() { return std::make_unique<SimBed>(sim::connectx3_40g()); }
std::unique_ptr<Bed> rdma100g() { return std::make_unique<SimBed>(sim::rdma100g()); }

INSTANTIATE_TEST_SUITE_P(Sim, Conformance,
                         ::testing::Values(Provider{"connectx3", connectx3}, Provider{"rdma100g", rdma100g}),
                         provider_name);

}  // namespace
}  // namespace yonder::fabric::conformance
