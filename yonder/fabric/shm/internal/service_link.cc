// One connection at the service thread: control packets, served memory, the end.
#include <algorithm>

#include "yonder/fabric/shm/internal/received_file.h"
#include "yonder/fabric/shm/internal/service.h"
#include "yonder/sync/shared_copy.h"

namespace yonder::fabric::shm {
namespace {

// Of a region, at attach. 4 GiB take about 0.2 s of the service thread.
constexpr std::size_t kPopulateBytes = std::size_t{4} << 30;
// Packets and requests of one connection before the next has its turn.
constexpr int kPacketsPerTurn = 16;
constexpr std::uint32_t kRequestsPerTurn = kSlots;

}  // namespace

// ---------------------------------------------------------------- packets

void Service::on_link_event(const Connected& connected, std::uint32_t bits) {
  const std::shared_ptr<Link>& link = connected.link;
  for (int i = 0; i < kPacketsPerTurn && !link->lost(); ++i) {
    const auto more = take_packet(link);
    // Whatever was wrong, it was the peer: its connection ends, nothing else.
    if (!more) return lost(link);
    if (!*more) break;
  }
  const std::uint32_t over = os::kEpollHangUp | os::kEpollError | os::kEpollPeerClosed;
  if ((bits & over) != 0) lost(link);
}

Result<bool> Service::take_packet(const std::shared_ptr<Link>& link) {
  std::array<std::byte, kMaxPacket> buffer;
  auto received = receive_packet(link->parts().socket, buffer);
  if (!received && received.error() == ErrorCode::kResourceExhausted) {
    // The region's descriptor found no room in our table; only one question is
    // ever open, so its request can be told.
    if (link->mailbox()) {
      Mail mail{.kind = Mail::Kind::kResolved, .endpoint = link->endpoint(), .link = link};
      mail.resolved.status = ErrorCode::kResourceExhausted;
      link->mailbox()->post(std::move(mail));
    }
    return true;
  }
  if (!received) return std::unexpected(received.error());
  if (received->bytes == 0) return false;
  const std::span<const std::byte> packet(buffer.data(), received->bytes);
  YONDER_TRY(type, packet_type(packet));
  switch (type) {
    case PacketType::kResolve: {
      YONDER_TRY(resolve, decode_resolve(packet));
      YONDER_TRY_VOID(answer_resolve(*link, resolve.key));
      return true;
    }
    case PacketType::kResolved: {
      YONDER_TRY(resolved, decode_resolved(packet));
      YONDER_TRY_VOID(deliver_resolved(link, resolved, std::move(received->fds)));
      return true;
    }
    case PacketType::kWake:
      serve(link);
      return true;
    default:
      return fail(ErrorCode::kMalformedFrame, "control packet: a handshake after the handshake");
  }
}

Result<void> Service::answer_resolve(const Link& link, RegionKey key) {
  ResolvedPacket answer{.key = key};
  Result<void> sent;
  const ErrorCode status =
      regions_.with(key, link.parts().agreement.peer.tenant, [&](const RegionEntry& entry) {
        const bool here = link.parts().same_process;
        answer.rights = entry.rights;
        answer.slot = entry.slot;
        answer.state = entry.state;
        answer.length = entry.memory.size();
        answer.direct = here || entry.shared.valid();
        if (here) answer.address = reinterpret_cast<std::uint64_t>(entry.memory.data());
        if (answer.direct) entry.exposed = true;
        // Sent under the table's lock: the descriptor must not be closed meanwhile.
        const int fd = entry.shared.get();
        const bool with_fd = answer.direct && !here;
        sent = send_packet(link.parts().socket, encode(answer),
                           with_fd ? std::span(&fd, 1) : std::span<const int>());
        return ErrorCode::kOk;
      });
  if (status == ErrorCode::kOk) return sent;
  answer.status = status;
  return send_packet(link.parts().socket, encode(answer), {});
}

Result<void> Service::deliver_resolved(const std::shared_ptr<Link>& link, const ResolvedPacket& packet,
                                       std::vector<os::Fd> fds) {
  if (!link->mailbox()) return fail(ErrorCode::kMalformedFrame, "control packet: an answer nobody asked for");
  const bool by_address = packet.direct && link->parts().same_process;
  const bool by_file = packet.status == ErrorCode::kOk && packet.direct && !by_address;
  if (fds.size() != (by_file ? 1u : 0u)) return fail(ErrorCode::kMalformedFrame, "resolved: descriptors");
  Mail mail{.kind = Mail::Kind::kResolved, .endpoint = link->endpoint(), .link = link, .resolved = packet};
  if (by_file) {
    const bool writes = allows(packet.rights, Rights::kWrite) || allows(packet.rights, Rights::kAtomic);
    auto mapping = map_received(std::move(fds[0]),
                                {.bytes = packet.length,
                                 .protection = writes ? os::Protection::kReadWrite : os::Protection::kRead,
                                 .populate_bytes = kPopulateBytes});
    if (mapping) {
      mail.mapping = std::move(*mapping);
      // The first load of the word should not fault in the data path.
      (void)link->parts().peer_state.region(packet.slot).load(std::memory_order_relaxed);
    } else if (mapping.error() == ErrorCode::kOutOfMemory) {
      mail.resolved.direct = false;  // No more mappings: the target serves it.
    } else {
      return std::unexpected(mapping.error());
    }
  }
  link->mailbox()->post(std::move(mail));
  return {};
}

// ---------------------------------------------------------------- served memory

void Service::serve_one(Link& link, std::uint32_t slot) {
  const ServeRequest& request = link.their_lane().requests[slot];
  const auto op = static_cast<Op>(read_once(request.op));
  const RegionKey key{read_once(request.key)};
  const std::uint64_t offset = read_once(request.offset);
  const std::uint64_t operand = read_once(request.operand);
  std::uint64_t compare = read_once(request.compare);
  const std::uint64_t met = read_once(request.state);
  const std::uint32_t length = read_once(request.length);
  std::byte* const data = link.slot_data(false, slot);
  ServeReply& reply = link.their_lane().replies[slot];
  reply.changed = 0;
  reply.value = 0;
  const bool known = op == Op::kRead || op == Op::kWrite || is_atomic(op);
  ErrorCode status = known && length <= kSlotBytes ? ErrorCode::kOk : ErrorCode::kInvalidArgument;
  if (status == ErrorCode::kOk) {
    status = regions_.with(key, link.parts().agreement.peer.tenant, [&](const RegionEntry& entry) {
      reply.state = entry.state;
      if (met != 0 && met != entry.state) {
        reply.changed = 1;
        return ErrorCode::kOk;
      }
      const ErrorCode allowed =
          check_access(op, offset, is_atomic(op) ? 8 : length, entry.memory.size(), entry.rights);
      if (allowed != ErrorCode::kOk) return allowed;
      std::byte* const at = entry.memory.data() + offset;
      if (op == Op::kRead) sync::load_words(data, at, length);
      if (op == Op::kWrite) sync::store_words(at, data, length);
      if (op == Op::kFetchAdd) reply.value = sync::shared_fetch_add(at, operand);
      if (op == Op::kCompareSwap) reply.value = sync::shared_compare_swap(at, compare, operand);
      return ErrorCode::kOk;
    });
  }
  reply.status = static_cast<std::uint16_t>(status);
}

bool Service::serve(const std::shared_ptr<Link>& link) {
  const std::uint32_t first = link->next_served;
  while (link->next_served - first < kRequestsPerTurn) {
    const std::uint32_t n = link->next_served;
    const std::uint32_t slot = n % kSlots;
    // acquire: pairs with release in ShmEndpoint::issue_part(); the request is complete.
    if (link->their_lane().requests[slot].sequence.load(std::memory_order_acquire) != n + 1) break;
    link->consumes();
    serve_one(*link, slot);
    link->publishes();
    // release: pairs with acquire in ShmEndpoint::take_replies().
    link->their_lane().replies[slot].sequence.store(n + 1, std::memory_order_release);
    ++link->next_served;
  }
  if (link->next_served == first) return false;
  link->nudge_queue();
  return true;
}

// ---------------------------------------------------------------- the end

void Service::lost(const std::shared_ptr<Link>& link) {
  Connected removed;
  if (!remove_link(link, removed)) return;
  if (removed.door && !removed.door->options.passive) {
    const std::lock_guard admission(removed.door->admission);
    bool was_waiting = false;
    {
      const std::lock_guard lock(removed.door->mutex);
      was_waiting = std::erase(removed.door->waiting, link) != 0;
    }
    if (was_waiting) return unmake_queue_end(*removed.door, *link);
  }
  if (removed.connector) {
    const Lock lock(mutex_);
    if (removed.connector->options.reconnect && !removed.connector->is_stopped)
      failed(removed.connector, Error(ErrorCode::kConnectionLost, "the connection broke"), lock);
  }
  if (!link->mailbox()) return;
  link->mailbox()->post({.kind = Mail::Kind::kLost, .endpoint = link->endpoint(), .link = link});
}

}  // namespace yonder::fabric::shm
