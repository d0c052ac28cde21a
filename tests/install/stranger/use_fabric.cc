// Reads remote memory through the installed fabric: within this process over shm,
// and from one host of a simulated cluster to another.
#include <yonder/fabric/shm/shm.h>
#include <yonder/fabric/sim/world.h>

#include <array>
#include <cstdio>
#include <cstring>
#include <string>

namespace {

using namespace yonder::fabric;

yonder::Result<bool> read_across(Fabric& target, Fabric& initiator, const std::string& address) {
  std::array<std::byte, 64> memory{};
  std::memcpy(memory.data(), "far away", 8);
  YONDER_TRY(region, target.register_memory({.memory = memory}));
  YONDER_TRY(listener, target.listen({.address = address, .passive = true}));
  YONDER_TRY(queue, initiator.create_completion_queue({}));
  YONDER_TRY(endpoint, initiator.connect({.address = listener->address()}, *queue));
  std::array<std::byte, 8> here{};
  YONDER_TRY(done, endpoint->read(LocalPiece::of(here), region.token().at(0)).wait());
  return done.length == here.size() && std::memcmp(here.data(), "far away", 8) == 0;
}

yonder::Result<bool> read_over_shm() {
  YONDER_TRY(fabric, shm::open({}));
  return read_across(*fabric, *fabric, "shm:");
}

yonder::Result<bool> read_over_sim() {
  sim::World world({.seed = 7, .hosts = 2});
  return read_across(world.host(0).fabric(), world.host(1).fabric(), "sim://host0:7400");
}

bool succeeds(const char* provider, const yonder::Result<bool>& same) {
  std::printf("%s: %s\n", provider,
              !same   ? same.error().to_string().c_str()
              : *same ? "read"
                      : "other bytes");
  return same && *same;
}

}  // namespace

int main() {
  const bool shm = succeeds("shm", read_over_shm());
  const bool sim = succeeds("sim", read_over_sim());
  return shm && sim ? 0 : 1;
}
