#include "yonder/fabric/sim/internal/nic.h"

namespace yonder::fabric::sim {
namespace {

// Of a long transfer the NIC looks up translations ahead of the data, so only
// the first few can delay it.
constexpr std::uint64_t kLookAhead = 4;
// Pages of one region that a tag can name: 2^28 × 4 KiB = 1 TiB.
constexpr unsigned kPageBits = 28;

}  // namespace

Penalty Nic::touch_region(std::uint64_t region, std::uint64_t first_page, std::uint64_t pages) {
  Penalty penalty;
  if (!regions_.touch(region)) penalty += {model_.region_miss_latency, model_.region_miss_unit};
  for (std::uint64_t i = 0; i < pages; ++i) {
    if (translations_.touch((region << kPageBits) + first_page + i) || i >= kLookAhead) continue;
    penalty += {model_.translation_miss_latency, model_.translation_miss_unit};
  }
  return penalty;
}

void Nic::forget_all() {
  translations_.clear();
  contexts_.clear();
  regions_.clear();
}

Ticks Nic::pcie_time(std::uint64_t bytes, std::uint32_t pieces, bool far_memory) const {
  const Ticks per_byte = model_.pcie_byte + (far_memory ? model_.numa_dma_byte : 0);
  return scaled(static_cast<Ticks>(pieces) * model_.dma_piece + static_cast<Ticks>(bytes) * per_byte);
}

Ticks Nic::send_request(const Outgoing& message) {
  Penalty penalty = message.penalty;
  Ticks busy = (message.is_read ? model_.read_unit : model_.send_unit) +
               static_cast<Ticks>(message.pieces - 1) * model_.piece_unit;
  if (message.far_memory) penalty += {model_.numa_dma_latency, model_.numa_dma_unit};
  Ticks latency = model_.send_latency + penalty.latency;
  Ticks at = reserve(send_units_[message.unit], message.at, scaled(busy + penalty.unit));
  if (message.dma_bytes > 0) {
    at = reserve(pcie_from_memory_, at, pcie_time(message.dma_bytes, message.pieces, message.far_memory));
    // Bytes go out as packets fill, not when the last piece is there.
    at += pcie_time(std::min<std::uint64_t>(message.dma_bytes, model_.packet_bytes), message.pieces,
                    message.far_memory);
    latency += model_.dma_read_latency;
  }
  return reserve(link_out_, at, wire_time(message.wire_payload)) + scaled(latency);
}

Ticks Nic::take_in(Ticks at, std::uint32_t unit, std::uint64_t payload, Penalty penalty) {
  const Ticks received = reserve(link_in_, at, wire_time(payload)) +
                         wire_time(std::min<std::uint64_t>(payload, model_.packet_bytes));
  return reserve(receive_units_[unit], received, scaled(model_.receive_unit + penalty.unit)) +
         scaled(model_.receive_latency + penalty.latency);
}

Effect Nic::receive_write(Ticks at, std::uint32_t unit, std::uint64_t bytes, std::uint32_t steps,
                          bool far_memory, Penalty penalty) {
  if (far_memory) penalty += {model_.numa_dma_latency, model_.numa_dma_unit};
  const Ticks processed = take_in(at, unit, bytes, penalty);
  const Ticks busy = pcie_time(bytes, 1, far_memory);
  const Ticks start = reserve(pcie_to_memory_, processed, busy) + scaled(model_.dma_write_latency);
  // Later packets arrive no faster than the link brings them.
  return {start, std::max(busy, wire_time(bytes)) / steps};
}

Effect Nic::receive_read(Ticks at, std::uint32_t unit, std::uint64_t bytes, std::uint32_t steps,
                         bool far_memory, Penalty penalty) {
  if (far_memory) penalty += {model_.numa_dma_latency, model_.numa_dma_unit};
  const Ticks processed = take_in(at, unit, 0, penalty);
  const Ticks busy = pcie_time(bytes, 1, far_memory);
  const Ticks start = reserve(pcie_from_memory_, processed, busy) + scaled(model_.read_turnaround);
  return {start, busy / steps};
}

Effect Nic::receive_atomic(Ticks at, std::uint32_t unit, bool far_memory, Penalty penalty) {
  if (far_memory) penalty += {model_.numa_dma_latency, model_.numa_dma_unit};
  const Ticks processed = take_in(at, unit, 16, penalty);
  return {reserve(atomics_, processed, scaled(model_.atomic_unit)) + scaled(model_.atomic_turnaround), 0};
}

Ticks Nic::receive_refused(Ticks at, std::uint32_t unit, Penalty penalty) {
  return take_in(at, unit, 0, penalty);
}

Ticks Nic::send_response(Ticks at, std::uint64_t payload) {
  return reserve(link_out_, at, wire_time(payload));
}

Ticks Nic::receive_response(Ticks at, std::uint32_t unit, std::uint64_t payload) {
  const Ticks received = reserve(link_in_, at, wire_time(payload)) + wire_time(payload);
  const Ticks busy = pcie_time(payload, 1, false);
  return reserve(response_units_[unit], received, scaled(model_.response_unit)) +
         scaled(model_.response_latency + model_.dma_write_latency) + busy;
}

}  // namespace yonder::fabric::sim
