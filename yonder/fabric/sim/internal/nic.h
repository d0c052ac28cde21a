#pragma once
// One simulated NIC: its stations, and when each is free again.
//
// Stations are servers with a next-free time: a message that comes at t starts at
// max(t, free) and pushes `free` by its occupancy. No event is spent on that, which
// is why a request costs three events and not a dozen. Two rules keep the
// arithmetic honest:
//   N1  A station is reserved in the event that happens when the message gets
//       there, or on a path whose delay is the same for everybody: else a message
//       from a congested sender would hold a place in the far future of a link
//       that is idle now.
//   N2  Pure latencies are added after the last reservation: a message under way
//       does not keep a station busy.
//
// Concurrency: one thread. Lifetime: owned by its Host.

#include <algorithm>
#include <cstdint>
#include <vector>

#include "yonder/fabric/sim/internal/metadata_cache.h"
#include "yonder/fabric/sim/nic_model.h"
#include "yonder/fabric/types.h"

namespace yonder::fabric::sim {

// What cache misses and socket hops add to one message.
struct Penalty {
  Ticks latency = 0;
  Ticks unit = 0;  // occupancy of the processing unit

  Penalty& operator+=(Penalty other) {
    latency += other.latency;
    unit += other.unit;
    return *this;
  }
};

// A message as the sending NIC sees it.
struct Outgoing {
  Ticks at = 0;  // when the NIC has the request
  std::uint32_t unit = 0;
  std::uint32_t pieces = 1;
  std::uint64_t wire_payload = 0;  // bytes that travel
  std::uint64_t dma_bytes = 0;     // bytes the NIC must fetch from local memory
  bool far_memory = false;         // some of them on another socket
  bool is_read = false;
  Penalty penalty;
};

// When a request takes effect in the target's memory: bytes move in units, one
// every `interval`, from `start` on.
struct Effect {
  Ticks start = 0;
  Ticks interval = 0;
};

class Nic {
 public:
  Nic(const NicModel& model, std::uint32_t socket)
      : model_(model),
        socket_(socket),
        translations_(model.translation_entries),
        contexts_(model.context_entries),
        regions_(model.region_entries),
        send_units_(model.units),
        receive_units_(model.units),
        response_units_(model.units) {}

  const NicModel& model() const { return model_; }
  std::uint32_t socket() const { return socket_; }

  // Everything takes `percent` / 100 times as long from now on.
  void slow_down(std::uint32_t percent) { percent_ = percent; }
  Ticks scaled(Ticks ticks) const { return percent_ == 100 ? ticks : ticks * percent_ / 100; }
  Ticks wire_time(std::uint64_t payload) const {
    return static_cast<Ticks>(model_.wire_bytes(payload)) * model_.link_byte;
  }

  // Looks an entry up in the NIC's memory; a miss costs.
  Penalty touch_context(std::uint64_t queue_pair) {
    if (contexts_.touch(queue_pair + 1)) return {};
    return {model_.context_miss_latency, model_.context_miss_unit};
  }
  // The region itself and `pages` translations from `first_page` on.
  Penalty touch_region(std::uint64_t region, std::uint64_t first_page, std::uint64_t pages);
  void forget_all();

  // The request leaves: when its first byte is on the link.
  Ticks send_request(const Outgoing& message);
  // A request whose first byte reaches the port at `at` is taken in.
  Effect receive_write(Ticks at, std::uint32_t unit, std::uint64_t bytes, std::uint32_t steps,
                       bool far_memory, Penalty penalty);
  Effect receive_read(Ticks at, std::uint32_t unit, std::uint64_t bytes, std::uint32_t steps, bool far_memory,
                      Penalty penalty);
  Effect receive_atomic(Ticks at, std::uint32_t unit, bool far_memory, Penalty penalty);
  // A request that is refused costs its unit and nothing else: when it is known.
  Ticks receive_refused(Ticks at, std::uint32_t unit, Penalty penalty);

  // `payload` bytes of a read go back from `at` on: when the first is on the link.
  Ticks send_response(Ticks at, std::uint64_t payload);
  // A response whose first byte reaches the port at `at`: when the NIC is done with it.
  Ticks receive_response(Ticks at, std::uint32_t unit, std::uint64_t payload);

  const MetadataCache& translations() const { return translations_; }
  const MetadataCache& contexts() const { return contexts_; }
  const MetadataCache& regions() const { return regions_; }

 private:
  // Starts at max(at, free) and keeps the station for `busy`.
  static Ticks reserve(Ticks& free, Ticks at, Ticks busy) {
    const Ticks start = std::max(at, free);
    free = start + busy;
    return start;
  }
  Ticks pcie_time(std::uint64_t bytes, std::uint32_t pieces, bool far_memory) const;
  // The unit starts when the first packet is complete.
  Ticks take_in(Ticks at, std::uint32_t unit, std::uint64_t payload, Penalty penalty);

  NicModel model_;
  std::uint32_t socket_;
  std::uint32_t percent_ = 100;
  MetadataCache translations_;
  MetadataCache contexts_;
  MetadataCache regions_;
  // Next-free times.
  std::vector<Ticks> send_units_;
  std::vector<Ticks> receive_units_;
  std::vector<Ticks> response_units_;  // Apart from send_units_, which N1 would else forbid.
  Ticks link_out_ = 0;
  Ticks link_in_ = 0;
  Ticks pcie_from_memory_ = 0;
  Ticks pcie_to_memory_ = 0;
  Ticks atomics_ = 0;
};

}  // namespace yonder::fabric::sim
