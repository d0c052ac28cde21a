#pragma once
// What servers of a cluster and the process with the registry say to each other over rpc
// (rpc/message.h for the kinds).
//
//   to a registry                              answer
//   Partitions   –                             how many there are
//   Announce     process, where it serves      –
//   Claim        partition, segment            – (kAlreadyExists)
//   View         first partition               places, as many as fit
//   Servers      –                             places without partition
//   Order        partition, to whom            the job's number
//   TakeOrder    process                       a job for it, or none
//   FinishOrder  job, error                    –
//   CancelOrder  job                           –
//   PauseOrders  1 or 0                        –
//   Orders       –                             jobs
//   Report       loads                         –
//   Plan         –                             moves
//   Arrivals     process, how far they are     –
//
// Everything that arrives is a peer's word: decode() refuses what makes no sense.
//
// Concurrency: values. Lifetime: values.

#include <cstddef>
#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "yonder/cache/partition_registry.h"
#include "yonder/rpc/message.h"

namespace yonder::cache::protocol {

using segment::ProcessId;
using segment::SegmentId;

// So many places fit an answer of 8 KiB, addresses of usual length included.
inline constexpr std::size_t kPlacesPerAnswer = 32;
inline constexpr std::size_t kLoadsPerMessage = 256;  // and reports of arrivals
inline constexpr std::size_t kPlaceBytes = 4 + 8 + 8 + 8 + 4 + Registry::kMaxAddress;

struct CountMessage {
  static constexpr std::size_t kMaxBytes = 4;
  std::uint32_t count = 0;
  void encode(rpc::Writer& out) const { out.put(count); }
  void decode(rpc::Reader& in) { count = in.get<std::uint32_t>(); }
};

struct AnnounceMessage {
  static constexpr std::size_t kMaxBytes = 8 + 4 + Registry::kMaxAddress;
  ProcessId process;
  std::string server;
  void encode(rpc::Writer& out) const {
    out.put(process);
    out.string(server, Registry::kMaxAddress);
  }
  void decode(rpc::Reader& in) {
    process = in.get<ProcessId>();
    server = in.string(Registry::kMaxAddress);
  }
};

struct ClaimMessage {
  static constexpr std::size_t kMaxBytes = 12;
  std::uint32_t partition = 0;
  SegmentId segment;
  void encode(rpc::Writer& out) const {
    out.put(partition);
    out.put(segment);
  }
  void decode(rpc::Reader& in) {
    partition = in.get<std::uint32_t>();
    segment = in.get<SegmentId>();
  }
};

struct PlacesMessage {
  static constexpr std::size_t kMaxBytes = 4 + kPlacesPerAnswer * kPlaceBytes;
  std::vector<PartitionPlace> places;
  void encode(rpc::Writer& out) const {
    out.count(places.size(), kPlacesPerAnswer);
    for (const PartitionPlace& place : places) {
      out.put(place.partition);
      out.put(place.segment);
      out.put(place.owner);
      out.put(place.epoch);
      out.string(place.server, Registry::kMaxAddress);
    }
  }
  void decode(rpc::Reader& in) {
    const std::size_t count = in.count(kPlacesPerAnswer, kPlaceBytes - Registry::kMaxAddress);
    for (std::size_t i = 0; i < count && in.ok(); ++i) {
      PartitionPlace place;
      place.partition = in.get<std::uint32_t>();
      place.segment = in.get<SegmentId>();
      place.owner = in.get<ProcessId>();
      place.epoch = in.get<Epoch>();
      place.server = in.string(Registry::kMaxAddress);
      places.push_back(std::move(place));
    }
  }
};

struct OrderRequest {
  static constexpr std::size_t kMaxBytes = 12;
  std::uint32_t partition = 0;
  ProcessId to;
  void encode(rpc::Writer& out) const {
    out.put(partition);
    out.put(to);
  }
  void decode(rpc::Reader& in) {
    partition = in.get<std::uint32_t>();
    to = in.get<ProcessId>();
  }
};

struct NumberMessage {
  static constexpr std::size_t kMaxBytes = 8;
  std::uint64_t number = 0;
  void encode(rpc::Writer& out) const { out.put(number); }
  void decode(rpc::Reader& in) { number = in.get<std::uint64_t>(); }
};

struct FinishMessage {
  static constexpr std::size_t kMaxBytes = 10;
  std::uint64_t id = 0;
  ErrorCode error = ErrorCode::kOk;
  void encode(rpc::Writer& out) const {
    out.put(id);
    out.put(error);
  }
  void decode(rpc::Reader& in) {
    id = in.get<std::uint64_t>();
    error = in.get<ErrorCode>();
  }
};

struct OrdersMessage {
  static constexpr std::size_t kOrderBytes = 8 + 4 + 8 + 8 + 1 + 2 + 8;
  static constexpr std::size_t kMaxBytes = 4 + MoveOrders::kKept * kOrderBytes;
  std::vector<MoveOrder> orders;
  void encode(rpc::Writer& out) const {
    out.count(orders.size(), MoveOrders::kKept);
    for (const MoveOrder& order : orders) {
      out.put(order.id);
      out.put(order.partition);
      out.put(order.from);
      out.put(order.to);
      out.put(order.state);
      out.put(order.error);
      out.put(order.bytes_left);
    }
  }
  void decode(rpc::Reader& in) {
    const std::size_t count = in.count(MoveOrders::kKept, kOrderBytes);
    for (std::size_t i = 0; i < count && in.ok(); ++i) {
      MoveOrder order;
      order.id = in.get<std::uint64_t>();
      order.partition = in.get<std::uint32_t>();
      order.from = in.get<ProcessId>();
      order.to = in.get<ProcessId>();
      order.state = in.get_enum(OrderState::kQueued, OrderState::kPaused);
      order.error = in.get<ErrorCode>();
      order.bytes_left = in.get<std::uint64_t>();
      orders.push_back(order);
    }
  }
};

struct LoadsMessage {
  static constexpr std::size_t kMaxBytes = 4 + kLoadsPerMessage * 20;
  std::vector<LoadReport> loads;
  void encode(rpc::Writer& out) const {
    out.count(loads.size(), kLoadsPerMessage);
    for (const LoadReport& load : loads) {
      out.put(load.partition);
      out.put(load.operations);
      out.put(load.bytes);
    }
  }
  void decode(rpc::Reader& in) {
    const std::size_t count = in.count(kLoadsPerMessage, 20);
    for (std::size_t i = 0; i < count && in.ok(); ++i) {
      LoadReport load;
      load.partition = in.get<std::uint32_t>();
      load.operations = in.get<std::uint64_t>();
      load.bytes = in.get<std::uint64_t>();
      loads.push_back(load);
    }
  }
};

struct ArrivalsMessage {
  static constexpr std::size_t kArrivalBytes = 4 + 8 + 2;
  static constexpr std::size_t kMaxBytes = 8 + 4 + kLoadsPerMessage * kArrivalBytes;
  ProcessId target;
  std::vector<ArrivalReport> arrivals;
  void encode(rpc::Writer& out) const {
    out.put(target);
    out.count(arrivals.size(), kLoadsPerMessage);
    for (const ArrivalReport& arrival : arrivals) {
      out.put(arrival.partition);
      out.put(arrival.bytes_left);
      out.put(arrival.error);
    }
  }
  void decode(rpc::Reader& in) {
    target = in.get<ProcessId>();
    const std::size_t count = in.count(kLoadsPerMessage, kArrivalBytes);
    for (std::size_t i = 0; i < count && in.ok(); ++i) {
      ArrivalReport arrival;
      arrival.partition = in.get<std::uint32_t>();
      arrival.bytes_left = in.get<std::uint64_t>();
      arrival.error = in.get<ErrorCode>();
      arrivals.push_back(arrival);
    }
  }
};

struct PlanMessage {
  static constexpr std::size_t kMaxMoves = 64;
  static constexpr std::size_t kMoveBytes = 4 + 8 + 8 + 8;
  static constexpr std::size_t kMaxBytes = 4 + kMaxMoves * kMoveBytes;
  std::vector<PlannedMove> moves;
  void encode(rpc::Writer& out) const {
    out.count(moves.size(), kMaxMoves);
    for (const PlannedMove& move : moves) {
      out.put(move.partition);
      out.put(move.from);
      out.put(move.to);
      out.put(move.bytes);
    }
  }
  void decode(rpc::Reader& in) {
    const std::size_t count = in.count(kMaxMoves, kMoveBytes);
    for (std::size_t i = 0; i < count && in.ok(); ++i) {
      PlannedMove move;
      move.partition = in.get<std::uint32_t>();
      move.from = in.get<ProcessId>();
      move.to = in.get<ProcessId>();
      move.bytes = in.get<std::uint64_t>();
      moves.push_back(move);
    }
  }
};

struct Partitions : rpc::MethodOf<540, rpc::Empty, CountMessage> {};
struct Announce : rpc::MethodOf<541, AnnounceMessage, rpc::Empty> {};
struct Claim : rpc::MethodOf<542, ClaimMessage, rpc::Empty> {};
struct View : rpc::MethodOf<543, CountMessage, PlacesMessage> {};
struct Servers : rpc::MethodOf<544, rpc::Empty, PlacesMessage> {};
struct Order : rpc::MethodOf<545, OrderRequest, NumberMessage> {};
struct TakeOrder : rpc::MethodOf<546, NumberMessage, OrdersMessage> {};
struct FinishOrder : rpc::MethodOf<547, FinishMessage, rpc::Empty> {};
struct CancelOrder : rpc::MethodOf<548, NumberMessage, rpc::Empty> {};
struct PauseOrders : rpc::MethodOf<549, NumberMessage, rpc::Empty> {};
struct Orders : rpc::MethodOf<550, rpc::Empty, OrdersMessage> {};
struct Report : rpc::MethodOf<551, LoadsMessage, rpc::Empty> {};
struct Plan : rpc::MethodOf<552, rpc::Empty, PlanMessage> {};
struct Arrivals : rpc::MethodOf<553, ArrivalsMessage, rpc::Empty> {};

}  // namespace yonder::cache::protocol
