#include "yonder/cache/partition_registry.h"

#include <algorithm>
#include <utility>

#include "yonder/rpc/client.h"
#include "yonder/rpc/message.h"

namespace yonder::cache {

namespace {

using segment::ProcessId;
using segment::SegmentId;

// So many places fit an answer of 8 KiB, addresses of usual length included.
constexpr std::size_t kPlacesPerAnswer = 32;
constexpr std::size_t kPlaceBytes = 4 + 8 + 8 + 8 + 4 + Registry::kMaxAddress;

template <std::uint16_t kNumber, typename RequestType, typename ResponseType>
struct MethodOf {
  static constexpr rpc::MethodId kMethod{kNumber};
  using Request = RequestType;
  using Response = ResponseType;
};

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

struct Partitions : MethodOf<540, rpc::Empty, CountMessage> {};
struct Announce : MethodOf<541, AnnounceMessage, rpc::Empty> {};
struct Claim : MethodOf<542, ClaimMessage, rpc::Empty> {};
struct View : MethodOf<543, CountMessage, PlacesMessage> {};
struct Servers : MethodOf<544, rpc::Empty, PlacesMessage> {};

Result<rpc::Empty> empty(Result<void> done) {
  if (!done) return std::unexpected(done.error());
  return rpc::Empty{};
}
Result<PlacesMessage> places(Result<std::vector<PartitionPlace>> found) {
  if (!found) return std::unexpected(found.error());
  return PlacesMessage{std::move(*found)};
}

// Calls are seldom, by any thread: one connection with a lock.
class RemoteRegistry final : public Registry {
 public:
  RemoteRegistry(std::unique_ptr<fabric::CompletionQueue> queue, rpc::ClientPtr client)
      : queue_(std::move(queue)), client_(std::move(client)) {}

  Result<std::uint32_t> partitions(Deadline deadline) override {
    YONDER_TRY(answer, call<Partitions>({}, deadline));
    return answer.count;
  }
  Result<void> announce(ProcessId process, const std::string& server, Deadline deadline) override {
    YONDER_TRY_VOID(call<Announce>({process, server}, deadline));
    return {};
  }
  Result<void> claim(std::uint32_t partition, SegmentId segment, Deadline deadline) override {
    YONDER_TRY_VOID(call<Claim>({partition, segment}, deadline));
    return {};
  }
  Result<std::vector<PartitionPlace>> view(std::uint32_t from, Deadline deadline) override {
    YONDER_TRY(answer, call<View>({from}, deadline));
    return std::move(answer.places);
  }
  Result<std::vector<PartitionPlace>> servers(Deadline deadline) override {
    YONDER_TRY(answer, call<Servers>({}, deadline));
    return std::move(answer.places);
  }

 private:
  template <rpc::Method M>
  Result<typename M::Response> call(typename M::Request request, Deadline deadline) {
    const sync::LockGuard lock(mutex_);
    return client_->call<M>(std::move(request), deadline).wait();
  }

  sync::Mutex mutex_;
  std::unique_ptr<fabric::CompletionQueue> queue_;
  rpc::ClientPtr client_ YONDER_GUARDED_BY(mutex_);
};

}  // namespace

Result<std::uint32_t> PartitionRegistry::partitions(Deadline) {
  const sync::LockGuard lock(mutex_);
  return static_cast<std::uint32_t>(segments_.size());
}

Result<void> PartitionRegistry::announce(ProcessId process, const std::string& server, Deadline deadline) {
  YONDER_TRY_VOID(directory_.address_of(process, deadline));
  if (server.empty() || server.size() > kMaxAddress)
    return fail(ErrorCode::kInvalidArgument, "announce a server: its address has 1 to 128 characters");
  const sync::LockGuard lock(mutex_);
  servers_[process] = server;
  return {};
}

bool PartitionRegistry::is_alive(SegmentId segment, Deadline deadline) {
  const Result<segment::SegmentRecord> record = directory_.find(segment, deadline);
  return record && record->state != segment::SegmentState::kLost;
}

Result<void> PartitionRegistry::claim(std::uint32_t partition, SegmentId segment, Deadline deadline) {
  const sync::LockGuard lock(mutex_);
  if (partition >= segments_.size())
    return fail(ErrorCode::kOutOfBounds, "claim a partition", static_cast<std::int64_t>(partition));
  SegmentId& holder = segments_[partition];
  if (holder != SegmentId(0) && is_alive(holder, deadline))
    return fail(ErrorCode::kAlreadyExists, "claim a partition: it has an owner", partition);
  // Its address space can be used again.
  if (holder != SegmentId(0)) (void)directory_.deallocate(ProcessId(0), holder, deadline);
  holder = segment;
  return {};
}

Result<std::vector<PartitionPlace>> PartitionRegistry::view(std::uint32_t from, Deadline deadline) {
  const sync::LockGuard lock(mutex_);
  std::vector<PartitionPlace> seen;
  for (std::size_t i = from; i < segments_.size() && seen.size() < kPlacesPerAnswer; ++i) {
    PartitionPlace place{.partition = static_cast<std::uint32_t>(i), .segment = segments_[i]};
    const Result<segment::SegmentRecord> record = directory_.find(segments_[i], deadline);
    if (record && record->state != segment::SegmentState::kLost) {
      place.owner = record->owner;
      place.epoch = record->epoch;
      if (const auto server = servers_.find(record->owner); server != servers_.end())
        place.server = server->second;
    }
    seen.push_back(std::move(place));
  }
  return seen;
}

Result<std::vector<PartitionPlace>> PartitionRegistry::servers(Deadline deadline) {
  const sync::LockGuard lock(mutex_);
  std::erase_if(servers_, [&](const auto& entry) {
    const Result<std::string> alive = directory_.address_of(entry.first, deadline);
    return !alive && alive.error() == ErrorCode::kNotFound;
  });
  std::vector<PartitionPlace> listed;
  for (const auto& [process, server] : servers_) {
    if (listed.size() < kPlacesPerAnswer) listed.push_back({.owner = process, .server = server});
  }
  return listed;
}

void serve_registry(rpc::Server& server, Registry& registry) {
  using rpc::Context;
  server.handle<Partitions>([&](const Context& context, const rpc::Empty&) -> Result<CountMessage> {
    YONDER_TRY(count, registry.partitions(context.deadline()));
    return CountMessage{count};
  });
  server.handle<Announce>([&](const Context& context, const AnnounceMessage& request) {
    return empty(registry.announce(request.process, request.server, context.deadline()));
  });
  server.handle<Claim>([&](const Context& context, const ClaimMessage& request) {
    return empty(registry.claim(request.partition, request.segment, context.deadline()));
  });
  server.handle<View>([&](const Context& context, const CountMessage& request) {
    return places(registry.view(request.count, context.deadline()));
  });
  server.handle<Servers>([&](const Context& context, const rpc::Empty&) {
    return places(registry.servers(context.deadline()));
  });
}

Result<std::unique_ptr<Registry>> connect_registry(fabric::Fabric& fabric, const std::string& address) {
  YONDER_TRY(queue, fabric.create_completion_queue({.capacity = 1024}));
  YONDER_TRY(client, rpc::Client::connect(fabric, address, *queue, {}));
  return std::make_unique<RemoteRegistry>(std::move(queue), std::move(client));
}

}  // namespace yonder::cache
