#pragma once
// What the ways to move a vector cost, in five numbers, and which way they favour.
//
// The pieces of one run lie next to each other at the target, so they can leave in
// three ways (paper 002, section III-A; n pieces, b bytes together):
//
//   way        paper     cost
//   doorbell   doorbell  n × request
//   gather     SGL       ⌈n / max_pieces⌉ × request + n × gather_piece + b × gather_byte
//   pack       SP        ⌈b / buffer⌉ × request + n × pack_piece + b × pack_byte
//
// `request` is what one more request costs in a batch, not a round trip: every way
// pays one of those. The numbers come from measure_costs(), which takes a few
// milliseconds when a program starts, or from default_costs(), which were measured so
// on the machines of this project. Both are only used to choose: a wrong number costs
// time, never correctness.
//
// Concurrency and lifetime: values.

#include <cstdint>
#include <string_view>

#include "yonder/base/result.h"
#include "yonder/remote/port.h"

namespace yonder::remote {

class BufferPool;

struct CostModel {
  double request_ns = 200;
  double gather_piece_ns = 20;
  double gather_byte_ns = 0;
  double pack_piece_ns = 12;
  double pack_byte_ns = 0.08;

  friend bool operator==(const CostModel&, const CostModel&) = default;
};

// Of a provider by its name (fabric::Capabilities::provider); an unknown one gets
// those of a NIC.
CostModel default_costs(std::string_view provider);

// Measures by reading: `region` to `region + bytes` must be readable and is not
// changed. Requires at least kMeasureBytes there (kLengthInvalid). Works in virtual
// time, too. Measure once for each kind of connection and give the result to every
// VectorIo on it.
inline constexpr std::uint64_t kMeasureBytes = 16 * 1024;
Task<Result<CostModel>> async_measure_costs(Port port, BufferPool& pool, RemoteAddress region,
                                            std::uint64_t bytes, Deadline deadline = {});
Result<CostModel> measure_costs(Port port, BufferPool& pool, RemoteAddress region, std::uint64_t bytes,
                                Deadline deadline = {});

}  // namespace yonder::remote
