// Requests: what the node does for us.
#include <algorithm>
#include <cstring>
#include <utility>

#include "yonder/client/internal/session_core.h"

namespace yonder::client::internal {

using node::protocol::Alloc;
using node::protocol::Commit;
using node::protocol::Drop;
using node::protocol::Find;
using node::protocol::Free;
using node::protocol::GetRequest;
using node::protocol::PlaceAnswer;
using node::protocol::PointerMessage;
using node::protocol::Put;
using node::protocol::ReadRequest;
using node::protocol::Release;
using node::protocol::Stage;
using node::protocol::StageRead;
using node::protocol::Write;
using node::protocol::WriteRequest;

namespace {

WriteRequest write_request(ObjectPtr object, const ObjectVersion* expected, std::span<const std::byte> data) {
  return {.object = object,
          .conditional = expected != nullptr,
          .expected = expected != nullptr ? expected->value() : 0,
          .data = data};
}

Result<ObjectVersion> take_place(const Result<PlaceAnswer>& answer, ObjectPtr& object) {
  if (!answer) return std::unexpected(answer.error());
  object = object.with_slot(answer->slot);
  return ObjectVersion(answer->version);
}

// A stage is its connection's: a node that does not know it any more has lost the
// connection, or was another process then.
Error stage_error(const Error& error) {
  if (error != ErrorCode::kNotFound) return error;
  return {ErrorCode::kConnectionLost, "transfer a large object in parts"};
}

std::span<const std::byte> bytes_of(const auto& plain) { return std::as_bytes(std::span(&plain, 1)); }

}  // namespace

Task<Result<ObjectPtr>> SessionCore::alloc(std::uint32_t bytes, Deadline deadline) {
  const auto answer = co_await rpc_->call<Alloc>({.bytes = bytes}, deadline);
  if (!answer) co_return std::unexpected(answer.error());
  co_return answer->object();
}

Task<Result<void>> SessionCore::free(ObjectPtr object, Deadline deadline) {
  const auto answer = co_await rpc_->call<Free>(PointerMessage(object), deadline);
  co_return outcome_of(answer);
}

Task<Result<void>> SessionCore::find(ObjectPtr& object, Deadline deadline) {
  const auto answer = co_await rpc_->call<Find>(PointerMessage(object), deadline);
  if (!answer) co_return std::unexpected(answer.error());
  object = object.with_slot(answer->object().slot());
  co_return Result<void>();
}

Task<Result<void>> SessionCore::release(ObjectPtr& object, Deadline deadline) {
  const auto answer = co_await rpc_->call<Release>(PointerMessage(object), deadline);
  if (!answer) co_return std::unexpected(answer.error());
  object = answer->object();
  co_return Result<void>();
}

// ---------------------------------------------------------------- read and write

Result<ObjectVersion> SessionCore::take_read_answer(const Result<std::size_t>& length,
                                                    std::span<const std::byte> answer, ObjectPtr& object,
                                                    std::span<std::byte> out) const {
  if (!length) return std::unexpected(length.error());
  if (*length != sizeof(PlaceAnswer) + out.size()) return fail(ErrorCode::kCorrupt, "answer to a read");
  PlaceAnswer place;
  std::memcpy(&place, answer.data(), sizeof place);
  if (!out.empty()) std::memcpy(out.data(), answer.data() + sizeof place, out.size());
  return take_place(place, object);
}

Result<ObjectVersion> SessionCore::read_blocking(ObjectPtr& object, std::span<std::byte> out,
                                                 Deadline deadline) {
  const ReadRequest request{.pointer = PointerMessage(object), .bytes = out.size()};
  const Scratch answer = scratch_.take(sizeof(PlaceAnswer) + out.size());
  const auto length =
      rpc_->call_raw(node::protocol::kRead, bytes_of(request), answer.bytes(), deadline).wait();
  return take_read_answer(length, answer.bytes(), object, out);
}

Task<Result<ObjectVersion>> SessionCore::read(ObjectPtr& object, std::span<std::byte> out,
                                              Deadline deadline) {
  if (!fits_message(out.size())) co_return co_await read_staged(object, out, deadline);
  const ReadRequest request{.pointer = PointerMessage(object), .bytes = out.size()};
  const Scratch answer = scratch_.take(sizeof(PlaceAnswer) + out.size());
  const auto length =
      co_await rpc_->call_raw(node::protocol::kRead, bytes_of(request), answer.bytes(), deadline);
  co_return take_read_answer(length, answer.bytes(), object, out);
}

Result<ObjectVersion> SessionCore::write_blocking(ObjectPtr& object, const ObjectVersion* expected,
                                                  std::span<const std::byte> data, Deadline deadline) {
  return take_place(rpc_->call<Write>(write_request(object, expected, data), deadline).wait(), object);
}

Task<Result<ObjectVersion>> SessionCore::write(ObjectPtr& object, const ObjectVersion* expected,
                                               std::span<const std::byte> data, Deadline deadline) {
  if (!fits_message(data.size())) co_return co_await write_staged(object, expected, data, deadline);
  const auto answer = co_await rpc_->call<Write>(write_request(object, expected, data), deadline);
  co_return take_place(answer, object);
}

// ---------------------------------------------------------------- large objects

Task<Result<ObjectVersion>> SessionCore::read_staged(ObjectPtr& object, std::span<std::byte> out,
                                                     Deadline deadline) {
  const Result<void> good = map_->check(object, out.size());
  if (!good) co_return std::unexpected(good.error());
  deadline = or_default(deadline);
  const ReadRequest request{.pointer = PointerMessage(object), .bytes = out.size()};
  const auto staged = co_await rpc_->call<StageRead>(request, deadline);
  if (!staged) co_return std::unexpected(staged.error());
  const Result<void> got = co_await get_parts(staged->ticket, out, deadline);
  // Whether it is dropped now or expires later makes no difference to the caller.
  const auto dropped = co_await rpc_->call<Drop>({.ticket = staged->ticket}, deadline);
  (void)dropped;
  if (!got) co_return std::unexpected(stage_error(got.error()));
  co_return take_place(staged->place, object);
}

Task<Result<void>> SessionCore::get_parts(std::uint64_t ticket, std::span<std::byte> out, Deadline deadline) {
  for (std::size_t done = 0; done < out.size();) {
    const std::size_t part = std::min<std::size_t>(max_data_, out.size() - done);
    const GetRequest request{.ticket = ticket, .offset = done, .bytes = part};
    const auto length =
        co_await rpc_->call_raw(node::protocol::kGet, bytes_of(request), out.subspan(done, part), deadline);
    if (!length) co_return std::unexpected(length.error());
    if (*length != part) co_return fail(ErrorCode::kCorrupt, "part of a large object");
    done += part;
  }
  co_return Result<void>();
}

Task<Result<ObjectVersion>> SessionCore::write_staged(ObjectPtr& object, const ObjectVersion* expected,
                                                      std::span<const std::byte> data, Deadline deadline) {
  // Before gigabytes travel for nothing.
  const Result<void> good = map_->check(object, data.size());
  if (!good) co_return std::unexpected(good.error());
  deadline = or_default(deadline);
  const auto stage = co_await rpc_->call<Stage>({.bytes = data.size()}, deadline);
  if (!stage) co_return std::unexpected(stage.error());
  const Result<void> put = co_await put_parts(stage->ticket, data, deadline);
  if (!put) co_return std::unexpected(stage_error(put.error()));
  const auto answer = co_await rpc_->call<Commit>({.ticket = stage->ticket,
                                                   .pointer = PointerMessage(object),
                                                   .conditional = expected != nullptr ? 1u : 0u,
                                                   .expected = expected != nullptr ? expected->value() : 0},
                                                  deadline);
  if (!answer) co_return std::unexpected(stage_error(answer.error()));
  co_return take_place(answer, object);
}

Task<Result<void>> SessionCore::put_parts(std::uint64_t ticket, std::span<const std::byte> data,
                                          Deadline deadline) {
  for (std::size_t done = 0; done < data.size();) {
    const std::size_t part = std::min<std::size_t>(max_data_, data.size() - done);
    const auto put = co_await rpc_->call<Put>(
        {.ticket = ticket, .offset = done, .data = data.subspan(done, part)}, deadline);
    if (!put) co_return std::unexpected(put.error());
    done += part;
  }
  co_return Result<void>();
}

}  // namespace yonder::client::internal
