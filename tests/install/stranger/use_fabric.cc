// Reads remote memory through the installed fabric: one host of a simulated
// cluster reads what another has registered.
#include <yonder/fabric/sim/world.h>

#include <array>
#include <cstdio>
#include <cstring>

namespace {

using namespace yonder::fabric;

yonder::Result<bool> read_across(Fabric& target, Fabric& initiator) {
  std::array<std::byte, 64> memory{};
  std::memcpy(memory.data(), "far away", 8);
  YONDER_TRY(region, target.register_memory({.memory = memory}));
  YONDER_TRY(listener, target.listen({.address = "sim://host0:7400", .passive = true}));
  YONDER_TRY(queue, initiator.create_completion_queue({}));
  YONDER_TRY(endpoint, initiator.connect({.address = listener->address()}, *queue));
  std::array<std::byte, 8> here{};
  YONDER_TRY(done, endpoint->read(LocalPiece::of(here), region.token().at(0)).wait());
  return done.length == here.size() && std::memcmp(here.data(), "far away", 8) == 0;
}

}  // namespace

int main() {
  sim::World world({.seed = 7, .hosts = 2});
  const yonder::Result<bool> same = read_across(world.host(0).fabric(), world.host(1).fabric());
  if (!same) std::puts(same.error().to_string().c_str());
  return same && *same ? 0 : 1;
}
