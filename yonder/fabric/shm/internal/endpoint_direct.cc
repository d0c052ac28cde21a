// Direct access: what makes this provider fast. See region_table.h for R1 to R6.
#include "yonder/fabric/shm/internal/endpoint.h"
#include "yonder/sync/shared_copy.h"

namespace yonder::fabric::shm {
namespace {

// The first lines of each request of a batch; the processor's own prefetchers
// follow. Measured: 128 to 256 bytes do best for 64 B to 4 KiB.
constexpr std::uint64_t kPrefetchBytes = 256;

std::uint64_t access_atomic(const WorkRequest& request, std::byte* at) {
  if (request.op == Op::kFetchAdd) return sync::shared_fetch_add(at, request.operand);
  return sync::shared_compare_swap(at, request.compare, request.operand);
}

void copy_pieces(const WorkRequest& request, std::byte* remote) {
  const bool read = request.op == Op::kRead;
  for (const LocalPiece& piece : request.local) {
    if (piece.length == 0) continue;  // Nothing may lie nowhere.
    if (read) {
      sync::load_words(piece.data, remote, piece.length);
    } else {
      sync::store_words(remote, piece.data, piece.length);
    }
    remote += piece.length;
  }
}

}  // namespace

ShmEndpoint::Accessed ShmEndpoint::copy(const WorkRequest& request, const Attachment& region,
                                        std::uint64_t bytes) const {
  Accessed result;
  hazard_->store(region.hazard, std::memory_order_relaxed);  // R1
  light_fence(fence_);                                       // R2
  // acquire: R3; the copy does not start before.
  if (region.word->load(std::memory_order_acquire) != region.state) [[unlikely]] {
    result.stale = true;
  } else {
    result.status = check_access(request.op, request.remote.offset, bytes, region.length, region.rights);
    if (result.status == ErrorCode::kOk) [[likely]] {
      std::byte* const remote = region.base + request.remote.offset;
      if (is_atomic(request.op)) {
        result.value = access_atomic(request, remote);
      } else {
        copy_pieces(request, remote);  // R4
      }
      // R5. acquire fence: the copy's loads are before this one.
      std::atomic_thread_fence(std::memory_order_acquire);
      if (request.op == Op::kRead)
        result.stale = region.word->load(std::memory_order_relaxed) != region.state;
    }
  }
  link_->publishes();
  // release: R6 pairs with acquire in V3; the copy is over.
  hazard_->store(0, std::memory_order_release);
  return result;
}

[[gnu::always_inline]] inline bool ShmEndpoint::try_simple(const WorkRequest& request) {
  const bool read = request.op == Op::kRead;
  const bool simple = (read || request.op == Op::kWrite) && request.local.size() == 1 &&
                      request.flags == RequestFlags::kNone && request.deadline.is_default() && !paced_;
  if (!simple) return false;
  const LocalPiece piece = request.local.front();
  const Attachment* const region = keys_.find(request.remote.key);
  if (region == nullptr || region->kind != Attachment::Kind::kDirect) [[unlikely]]
    return false;
  const std::uint64_t offset = request.remote.offset;
  const bool allowed = piece.length != 0 && piece.length <= kMaxTransferBytes && offset <= region->length &&
                       piece.length <= region->length - offset &&
                       allows(region->rights, read ? Rights::kRead : Rights::kWrite);
  if (!allowed) [[unlikely]]
    return false;
  hazard_->store(region->hazard, std::memory_order_relaxed);                    // R1
  light_fence(fence_);                                                          // R2
  bool valid = region->word->load(std::memory_order_acquire) == region->state;  // R3
  if (valid) [[likely]] {
    if (read) {
      sync::load_words(piece.data, region->base + offset, piece.length);  // R4
      std::atomic_thread_fence(std::memory_order_acquire);
      valid = region->word->load(std::memory_order_relaxed) == region->state;  // R5
    } else {
      sync::store_words(region->base + offset, piece.data, piece.length);
    }
  }
  link_->publishes();
  hazard_->store(0, std::memory_order_release);  // R6
  if (!valid) [[unlikely]]
    return false;
  shm_queue_.push(
      {.user_data = request.user_data, .endpoint = id(), .length = piece.length, .op = request.op}, this);
  return true;
}

ShmEndpoint::Outcome ShmEndpoint::access(const WorkRequest& request, const Attachment& region) {
  const std::uint64_t bytes = is_atomic(request.op) ? 8 : local_bytes(request);
  const Accessed accessed = copy(request, region, bytes);
  if (accessed.stale) [[unlikely]]
    return Outcome::kStale;
  complete(request, accessed.status, accessed.status == ErrorCode::kOk ? bytes : 0, accessed.value);
  return Outcome::kDone;
}

ShmEndpoint::Outcome ShmEndpoint::write_and_announce(const WorkRequest& request, const Attachment& region) {
  ErrorCode status = ErrorCode::kOk;
  if (!can_send(sizeof(std::uint32_t), status)) return Outcome::kBlocked;
  const std::uint64_t bytes = local_bytes(request);
  const Accessed accessed = copy(request, region, bytes);
  if (accessed.stale) return Outcome::kStale;
  if (accessed.status != ErrorCode::kOk) {
    complete(request, accessed.status);
  } else {
    send_written(request, bytes);
  }
  return Outcome::kDone;
}

ShmEndpoint::Outcome ShmEndpoint::try_now(const WorkRequest& request) {
  const ErrorCode status = check_request(request, limits_);
  if (status != ErrorCode::kOk) [[unlikely]] {
    complete(request, status);
    return Outcome::kDone;
  }
  if (!request.deadline.is_default() && request.deadline.passed(shm_queue_.clock().now())) [[unlikely]] {
    complete(request, ErrorCode::kDeadlineExceeded);
    return Outcome::kDone;
  }
  if (request.op == Op::kSend) return try_send(request);
  const Attachment* const region = keys_.find(request.remote.key);
  if (region == nullptr || region->kind != Attachment::Kind::kDirect) [[unlikely]]
    return Outcome::kBlocked;
  if (request.op == Op::kWriteImm) return write_and_announce(request, *region);
  return access(request, *region);
}

void ShmEndpoint::prefetch(std::span<const WorkRequest> requests) const {
  for (const WorkRequest& request : requests) {
    const Attachment* const region = keys_.find(request.remote.key);
    if (region == nullptr || region->kind != Attachment::Kind::kDirect) continue;
    if (request.local.empty() || request.remote.offset >= region->length) continue;
    // A prefetch of an address that may be out of the mapping is harmless.
    const std::byte* const at = region->base + request.remote.offset;
    const std::uint64_t bytes = std::min<std::uint64_t>(request.local.front().length, kPrefetchBytes);
    for (std::uint64_t line = 0; line < bytes; line += kLineBytes) __builtin_prefetch(at + line);
  }
}

std::optional<Window> ShmEndpoint::window(RegionKey key) {
  // A modelled link must be felt: who looks without requests would not wait.
  if (state_ != EndpointState::kOpen || paced_) return std::nullopt;
  const Attachment* const region = keys_.find(key);
  if (region == nullptr || region->kind != Attachment::Kind::kDirect ||
      !allows(region->rights, Rights::kRead)) {
    return std::nullopt;
  }
  return Window({.base = region->base,
                 .length = region->length,
                 .word = region->word,
                 .state = region->state,
                 .hazard = hazard_,
                 .hazard_value = region->hazard,
                 .mapping_epoch = &keys_.epoch(),
                 .expected_epoch = keys_.epoch(),
                 .fence = fence_});
}

std::size_t ShmEndpoint::execute_now(std::span<const WorkRequest> requests) {
  if (requests.size() > 1) prefetch(requests);
  std::size_t done = 0;
  while (done < requests.size() && (try_simple(requests[done]) || try_now(requests[done]) == Outcome::kDone))
    ++done;
  return done;
}

Result<std::size_t> ShmEndpoint::do_post(std::span<const WorkRequest> requests) {
  const bool free = pending_.empty() && state_ == EndpointState::kOpen && in_flight_ < limits_.depth;
  if (requests.size() == 1 && free) [[likely]] {
    const WorkRequest& request = requests.front();
    if (request.op != Op::kSend) {
      if (try_simple(request)) {
        ++in_flight_;
        return 1;
      }
    } else if (request.deadline.is_default() && check_request(request, limits_) == ErrorCode::kOk) {
      ++in_flight_;
      if (try_send(request) == Outcome::kDone) return 1;
      --in_flight_;
    }
  }
  return post_all(requests);
}

}  // namespace yonder::fabric::shm
