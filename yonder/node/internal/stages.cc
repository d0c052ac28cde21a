#include "yonder/node/internal/stages.h"

#include <cstring>
#include <new>
#include <utility>

namespace yonder::node::internal {

Result<void> Stages::make_room(std::uint64_t bytes) {
  const auto full = [&]() YONDER_REQUIRES(mutex_) {
    return entries_.size() >= limits_.max_count || bytes > limits_.max_bytes - bytes_;
  };
  if (bytes > limits_.max_bytes)
    return fail(ErrorCode::kOverloaded, "stage a large object: the node's bound");
  if (full()) expire_locked();
  if (full()) return fail(ErrorCode::kOverloaded, "stage a large object: others are under way");
  return {};
}

std::uint64_t Stages::add(Entry entry) {
  entry.used = clock_.now();
  bytes_ += entry.bytes.size;
  const std::uint64_t ticket = next_ticket_++;
  entries_.emplace(ticket, std::move(entry));
  return ticket;
}

Result<std::uint64_t> Stages::open(fabric::EndpointId owner, std::uint64_t bytes) {
  if (bytes == 0) return fail(ErrorCode::kInvalidArgument, "stage nothing");
  sync::LockGuard lock(mutex_);
  YONDER_TRY_VOID(make_room(bytes));
  StagedBytes staged{.memory = std::unique_ptr<std::byte[]>(new (std::nothrow) std::byte[bytes]),
                     .size = bytes};
  if (staged.memory == nullptr) return fail(ErrorCode::kOutOfMemory, "stage a large object");
  return add({.owner = owner, .bytes = std::move(staged)});
}

Result<std::uint64_t> Stages::keep(fabric::EndpointId owner, StagedBytes bytes) {
  sync::LockGuard lock(mutex_);
  YONDER_TRY_VOID(make_room(bytes.size));
  const std::uint64_t filled = bytes.size;
  return add({.owner = owner, .bytes = std::move(bytes), .filled = filled});
}

Result<Stages::Map::iterator> Stages::find(fabric::EndpointId owner, std::uint64_t ticket) {
  const auto at = entries_.find(ticket);
  if (at == entries_.end() || at->second.owner != owner) {
    return fail(ErrorCode::kNotFound, "a stage of this connection", static_cast<std::int64_t>(ticket));
  }
  at->second.used = clock_.now();
  return at;
}

Result<void> Stages::put(fabric::EndpointId owner, std::uint64_t ticket, std::uint64_t offset,
                         std::span<const std::byte> data) {
  sync::LockGuard lock(mutex_);
  YONDER_TRY(at, find(owner, ticket));
  Entry& entry = at->second;
  if (offset != entry.filled || data.size() > entry.bytes.size - entry.filled) {
    return fail(ErrorCode::kOutOfBounds, "put the next part of a stage", static_cast<std::int64_t>(offset));
  }
  if (!data.empty()) std::memcpy(entry.bytes.memory.get() + offset, data.data(), data.size());
  entry.filled += data.size();
  return {};
}

Result<void> Stages::get(fabric::EndpointId owner, std::uint64_t ticket, std::uint64_t offset,
                         std::span<std::byte> out) {
  sync::LockGuard lock(mutex_);
  YONDER_TRY(at, find(owner, ticket));
  const Entry& entry = at->second;
  if (entry.filled != entry.bytes.size) return fail(ErrorCode::kInvalidArgument, "get of a stage that fills");
  if (offset > entry.bytes.size || out.size() > entry.bytes.size - offset) {
    return fail(ErrorCode::kOutOfBounds, "get a part of a stage", static_cast<std::int64_t>(offset));
  }
  if (!out.empty()) std::memcpy(out.data(), entry.bytes.memory.get() + offset, out.size());
  return {};
}

Result<StagedBytes> Stages::take(fabric::EndpointId owner, std::uint64_t ticket) {
  sync::LockGuard lock(mutex_);
  YONDER_TRY(at, find(owner, ticket));
  if (at->second.filled != at->second.bytes.size) {
    return fail(ErrorCode::kInvalidArgument, "use a stage that is not full");
  }
  StagedBytes bytes = std::move(at->second.bytes);
  remove(at);
  bytes_ -= bytes.size;
  return bytes;
}

Result<void> Stages::drop(fabric::EndpointId owner, std::uint64_t ticket) {
  sync::LockGuard lock(mutex_);
  YONDER_TRY(at, find(owner, ticket));
  remove(at);
  return {};
}

void Stages::remove(Map::iterator at) {
  // Bytes that take() moved out are its to subtract.
  if (at->second.bytes.memory != nullptr) bytes_ -= at->second.bytes.size;
  entries_.erase(at);
}

void Stages::expire() {
  sync::LockGuard lock(mutex_);
  expire_locked();
}

void Stages::expire_locked() {
  const Instant now = clock_.now();
  for (auto at = entries_.begin(); at != entries_.end();) {
    const auto here = at++;
    if (now - here->second.used >= limits_.timeout) remove(here);
  }
}

std::uint64_t Stages::bytes() const {
  sync::LockGuard lock(mutex_);
  return bytes_;
}

}  // namespace yonder::node::internal
