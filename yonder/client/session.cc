#include "yonder/client/session.h"

#include <algorithm>
#include <utility>

#include "yonder/client/internal/session_core.h"

namespace yonder::client {

using fabric::Task;
using internal::SessionCore;
using node::protocol::Alloc;
using node::protocol::Free;
using node::protocol::PointerMessage;

Result<std::unique_ptr<Session>> Session::connect(fabric::Fabric& fabric, const SessionOptions& options) {
  auto core = std::make_unique<SessionCore>(options);
  YONDER_TRY_VOID(core->connect(fabric));
  return std::unique_ptr<Session>(new Session(std::move(core)));
}

Session::Session(std::unique_ptr<SessionCore> core) : core_(std::move(core)) {}
Session::~Session() = default;
void Session::close() { core_->close(); }

fabric::Scheduler& Session::scheduler() { return core_->scheduler(); }
const Clock& Session::clock() const { return core_->clock(); }
node::NodeId Session::node() const { return core_->map().node(); }
node::Validator Session::validator() const { return core_->map().validator(); }
std::uint32_t Session::max_data() const { return core_->max_data(); }
const SessionStats& Session::stats() const { return core_->stats(); }

// ---------------------------------------------------------------- blocking

Result<ObjectPtr> Session::alloc(std::uint32_t bytes, Deadline deadline) {
  YONDER_TRY(answer, core_->rpc().call<Alloc>({.bytes = bytes}, deadline).wait());
  return answer.object();
}

Result<void> Session::free(ObjectPtr object, Deadline deadline) {
  return outcome_of(core_->rpc().call<Free>(PointerMessage(object), deadline).wait());
}

Result<ObjectVersion> Session::read(ObjectPtr& object, std::span<std::byte> out, Deadline deadline) {
  if (core_->fits_message(out.size())) return core_->read_blocking(object, out, deadline);
  return core_->scheduler().block_on(core_->read(object, out, deadline));
}

Result<ObjectVersion> Session::direct_read(ObjectPtr& object, std::span<std::byte> out, Deadline deadline) {
  if (ObjectVersion version; core_->try_near(object, out, version)) [[likely]]
    return version;
  return core_->direct_read_blocking(object, out, deadline);
}

Result<ObjectVersion> Session::scan_read(ObjectPtr& object, std::span<std::byte> out, Deadline deadline) {
  return core_->scheduler().block_on(core_->direct_read(object, out, deadline, true));
}

Result<ObjectVersion> Session::write(ObjectPtr& object, std::span<const std::byte> data, Deadline deadline) {
  if (core_->fits_message(data.size())) return core_->write_blocking(object, nullptr, data, deadline);
  return core_->scheduler().block_on(core_->write(object, nullptr, data, deadline));
}

Result<ObjectVersion> Session::write_if_version(ObjectPtr& object, ObjectVersion expected,
                                                std::span<const std::byte> data, Deadline deadline) {
  if (core_->fits_message(data.size())) return core_->write_blocking(object, &expected, data, deadline);
  return core_->scheduler().block_on(core_->write(object, &expected, data, deadline));
}

Result<void> Session::find(ObjectPtr& object, Deadline deadline) {
  return core_->scheduler().block_on(core_->find(object, deadline));
}
Result<void> Session::release_ptr(ObjectPtr& object, Deadline deadline) {
  return core_->scheduler().block_on(core_->release(object, deadline));
}
void Session::alloc_many(std::span<AllocItem> items, Deadline deadline) {
  core_->scheduler().block_on(core_->alloc_many(items, deadline));
}
void Session::free_many(std::span<FreeItem> items, Deadline deadline) {
  core_->scheduler().block_on(core_->free_many(items, deadline));
}
void Session::read_many(std::span<ReadItem> items, Deadline deadline) {
  core_->scheduler().block_on(core_->read_many(items, deadline));
}
void Session::direct_read_many(std::span<ReadItem> items, Deadline deadline) {
  if (!core_->is_near()) return core_->scheduler().block_on(core_->direct_read_many(items, deadline));
  // As many misses of the cache at a time as a processor can have.
  constexpr std::size_t kAhead = 16;
  for (std::size_t i = 0; i < items.size(); ++i) {
    if (i % kAhead == 0) core_->prefetch_near(items.subspan(i, std::min(kAhead, items.size() - i)));
    items[i].result = direct_read(items[i].object, items[i].out, deadline);
  }
}
void Session::write_many(std::span<WriteItem> items, Deadline deadline) {
  core_->scheduler().block_on(core_->write_many(items, deadline));
}
void Session::write_if_version_many(std::span<ConditionalWriteItem> items, Deadline deadline) {
  core_->scheduler().block_on(core_->write_if_version_many(items, deadline));
}
void Session::find_many(std::span<PointerItem> items, Deadline deadline) {
  core_->scheduler().block_on(core_->find_many(items, deadline));
}
void Session::release_ptr_many(std::span<PointerItem> items, Deadline deadline) {
  core_->scheduler().block_on(core_->release_many(items, deadline));
}
void Session::scan_read_many(std::span<ReadItem> items, Deadline deadline) {
  core_->scheduler().block_on(core_->scan_read_many(items, deadline));
}

// ---------------------------------------------------------------- coroutines

Task<Result<ObjectPtr>> Session::async_alloc(std::uint32_t bytes, Deadline deadline) {
  return core_->alloc(bytes, deadline);
}
Task<Result<void>> Session::async_free(ObjectPtr object, Deadline deadline) {
  return core_->free(object, deadline);
}
Task<Result<ObjectVersion>> Session::async_read(ObjectPtr& object, std::span<std::byte> out,
                                                Deadline deadline) {
  return core_->read(object, out, deadline);
}
Task<Result<ObjectVersion>> Session::async_direct_read(ObjectPtr& object, std::span<std::byte> out,
                                                       Deadline deadline) {
  if (ObjectVersion version; core_->try_near(object, out, version)) co_return version;
  co_return co_await core_->direct_read(object, out, deadline, false);
}
Task<Result<ObjectVersion>> Session::async_scan_read(ObjectPtr& object, std::span<std::byte> out,
                                                     Deadline deadline) {
  return core_->direct_read(object, out, deadline, true);
}
Task<Result<ObjectVersion>> Session::async_write(ObjectPtr& object, std::span<const std::byte> data,
                                                 Deadline deadline) {
  return core_->write(object, nullptr, data, deadline);
}
Task<Result<ObjectVersion>> Session::async_write_if_version(ObjectPtr& object, ObjectVersion expected,
                                                            std::span<const std::byte> data,
                                                            Deadline deadline) {
  // The version lives here until the write has ended.
  co_return co_await core_->write(object, &expected, data, deadline);
}
Task<Result<void>> Session::async_find(ObjectPtr& object, Deadline deadline) {
  return core_->find(object, deadline);
}
Task<Result<void>> Session::async_release_ptr(ObjectPtr& object, Deadline deadline) {
  return core_->release(object, deadline);
}
Task<void> Session::async_alloc_many(std::span<AllocItem> items, Deadline deadline) {
  return core_->alloc_many(items, deadline);
}
Task<void> Session::async_free_many(std::span<FreeItem> items, Deadline deadline) {
  return core_->free_many(items, deadline);
}
Task<void> Session::async_read_many(std::span<ReadItem> items, Deadline deadline) {
  return core_->read_many(items, deadline);
}
Task<void> Session::async_direct_read_many(std::span<ReadItem> items, Deadline deadline) {
  return core_->direct_read_many(items, deadline);
}
Task<void> Session::async_write_many(std::span<WriteItem> items, Deadline deadline) {
  return core_->write_many(items, deadline);
}

Task<void> Session::async_write_if_version_many(std::span<ConditionalWriteItem> items, Deadline deadline) {
  return core_->write_if_version_many(items, deadline);
}
Task<void> Session::async_find_many(std::span<PointerItem> items, Deadline deadline) {
  return core_->find_many(items, deadline);
}
Task<void> Session::async_release_ptr_many(std::span<PointerItem> items, Deadline deadline) {
  return core_->release_many(items, deadline);
}
Task<void> Session::async_scan_read_many(std::span<ReadItem> items, Deadline deadline) {
  return core_->scan_read_many(items, deadline);
}

}  // namespace yonder::client
