// What a node does for its clients.
#include <cstring>
#include <new>
#include <utility>

#include "yonder/node/internal/port.h"

namespace yonder::node::internal {

using protocol::AllocRequest;
using protocol::Item;
using protocol::ItemHead;
using protocol::PlaceAnswer;
using protocol::PointerMessage;
using protocol::ReadRequest;
using protocol::WriteRequest;
using rpc::Context;
using rpc::RawResponder;

namespace {

PlaceAnswer place_of(ObjectPtr object, ObjectVersion version) {
  return {.slot = object.slot(), .version = version.value()};
}

// Answers with what `make` writes into the responder's payload.
template <typename Make>
void answer_raw(RawResponder responder, Make&& make) {
  const Result<std::size_t> bytes = make(responder.payload());
  bytes ? std::move(responder).respond(*bytes) : std::move(responder).refuse(bytes.error().code());
}

}  // namespace

// ---------------------------------------------------------------- operations

Result<PointerMessage> Port::alloc(HeapThread& thread, const AllocRequest& request) const {
  if (request.bytes > kMaxObjectBytes) return fail(ErrorCode::kInvalidArgument, "allocate more than 64 MiB");
  const auto object = thread.try_alloc(static_cast<std::uint32_t>(request.bytes));
  // One that finds no memory will be tried again, and is counted when it is answered.
  if (object || object.error() != ErrorCode::kOutOfMemory) metrics_.alloc.add();
  if (!object) return std::unexpected(object.error());
  return PointerMessage(*object);
}

Result<rpc::Empty> Port::free(HeapThread& thread, const PointerMessage& request) const {
  metrics_.free.add();
  YONDER_TRY_VOID(thread.free(request.object()));
  return rpc::Empty{};
}

Result<PointerMessage> Port::find(HeapThread& thread, const PointerMessage& request) const {
  metrics_.find.add();
  YONDER_TRY(object, thread.find(request.object()));
  return PointerMessage(object);
}

Result<PointerMessage> Port::release(HeapThread& thread, const PointerMessage& request) const {
  metrics_.release.add();
  YONDER_TRY(object, thread.release_ptr(request.object()));
  return PointerMessage(object);
}

Result<PlaceAnswer> Port::write(HeapThread& thread, const WriteRequest& request) const {
  metrics_.write.add();
  metrics_.written_bytes.add(request.data.size());
  ObjectPtr object = request.object;
  if (request.conditional) {
    YONDER_TRY(version, thread.write_if_version(object, ObjectVersion(request.expected), request.data));
    return place_of(object, version);
  }
  YONDER_TRY(version, thread.write(object, request.data));
  return place_of(object, version);
}

Result<std::size_t> Port::read(HeapThread& thread, const ReadRequest& request,
                               std::span<std::byte> out) const {
  metrics_.read.add();
  metrics_.read_bytes.add(request.bytes);
  if (out.size() < sizeof(PlaceAnswer) || request.bytes > out.size() - sizeof(PlaceAnswer)) {
    return fail(ErrorCode::kMessageTooLong, "read into an answer", static_cast<std::int64_t>(request.bytes));
  }
  ObjectPtr object = request.pointer.object();
  YONDER_TRY(version, thread.read(object, out.subspan(sizeof(PlaceAnswer), request.bytes)));
  const PlaceAnswer place = place_of(object, version);
  std::memcpy(out.data(), &place, sizeof place);
  return sizeof place + request.bytes;
}

// ---------------------------------------------------------------- batches

namespace {

// Decodes an item's request, runs it, and encodes its answer.
template <typename Request, typename Run>
Result<std::size_t> run_as(std::span<const std::byte> bytes, std::span<std::byte> out, Run&& run) {
  Request request;
  if (!rpc::decode_message(bytes, request)) return fail(ErrorCode::kBadRequest, "item of a batch");
  YONDER_TRY(answer, run(request));
  const auto length = rpc::encode_message(answer, out);
  if (!length) return fail(ErrorCode::kMessageTooLong, "answer of a batch");
  return *length;
}

}  // namespace

Result<std::size_t> Port::run_item(HeapThread& thread, Item kind, std::span<const std::byte> bytes,
                                   std::span<std::byte> out) const {
  switch (kind) {
    case Item::kAlloc:
      return run_as<AllocRequest>(bytes, out, [&](const auto& request) { return alloc(thread, request); });
    case Item::kFree:
      return run_as<PointerMessage>(bytes, out, [&](const auto& request) { return free(thread, request); });
    case Item::kFind:
      return run_as<PointerMessage>(bytes, out, [&](const auto& request) { return find(thread, request); });
    case Item::kRelease:
      return run_as<PointerMessage>(bytes, out,
                                    [&](const auto& request) { return release(thread, request); });
    case Item::kWrite:
      return run_as<WriteRequest>(bytes, out, [&](const auto& request) { return write(thread, request); });
    case Item::kRead: {
      ReadRequest request;
      if (!rpc::decode_message(bytes, request)) return fail(ErrorCode::kBadRequest, "item of a batch");
      return read(thread, request, out);
    }
  }
  return fail(ErrorCode::kBadRequest, "kind of a batch's item", static_cast<std::int64_t>(kind));
}

// ---------------------------------------------------------------- registration

void Port::add_handlers() {
  server_->handle<protocol::Describe>([this](const Context&, const protocol::DescribeRequest& request) {
    return Result<protocol::NodeDescription>(describe(request.first_superblock));
  });
  add_object_handlers();
  add_stage_handlers();
  add_extent_handlers();
  add_offload_handlers();
}

void Port::add_object_handlers() {
  // Every failure is counted once, whatever the method.
  const auto counted = [this](auto result) {
    if (!result) metrics_.failed.add();
    return result;
  };
  server_->handle<protocol::Alloc>(
      [this](const Context& context, const AllocRequest& request, rpc::Responder<protocol::Alloc> responder) {
        answer_alloc(context, request, std::move(responder));
      });
  server_->handle<protocol::Free>([this, counted](const Context& context, const PointerMessage& request) {
    return counted(free(*lanes_->take(context.connection.value()), request));
  });
  server_->handle<protocol::Release>([this, counted](const Context& context, const PointerMessage& request) {
    return counted(release(*lanes_->take(context.connection.value()), request));
  });
  server_->handle<protocol::Write>([this, counted](const Context& context, const WriteRequest& request) {
    return counted(write(*lanes_->take(context.connection.value()), request));
  });
  server_->handle<protocol::Find>([this, counted](const Context& context, const PointerMessage& request) {
    return counted(find(*lanes_->take(context.connection.value()), request));
  });
  server_->handle_raw(
      protocol::kRead,
      [this, counted](const Context& context, std::span<const std::byte> bytes, RawResponder responder) {
        answer_raw(std::move(responder), [&](std::span<std::byte> out) -> Result<std::size_t> {
          ReadRequest request;
          if (!rpc::decode_message(bytes, request)) return fail(ErrorCode::kBadRequest, "read");
          return counted(read(*lanes_->take(context.connection.value()), request, out));
        });
      });
  server_->handle_raw(protocol::kBatch,
                      [this](const Context& context, std::span<const std::byte> bytes,
                             RawResponder responder) { answer_batch(context, bytes, std::move(responder)); });
}

void Port::add_stage_handlers() {
  server_->handle<protocol::Stage>(
      [this](const Context& context,
             const protocol::StageRequest& request) -> Result<protocol::TicketMessage> {
        if (request.bytes > kMaxObjectBytes)
          return fail(ErrorCode::kInvalidArgument, "stage more than 64 MiB");
        YONDER_TRY(ticket, stages_.open(context.connection, request.bytes));
        return protocol::TicketMessage{.ticket = ticket};
      });
  server_->handle<protocol::StageRead>(
      [this](const Context& context, const ReadRequest& request) -> Result<protocol::StageReadAnswer> {
        metrics_.read.add();
        ObjectPtr object = request.pointer.object();
        if (request.bytes == 0 || request.bytes > object.size()) {
          return fail(ErrorCode::kOutOfBounds, "read more than the object has");
        }
        // Made before it is known whether there is room: one for each handler that
        // runs, which is a bound of its own.
        StagedBytes staged{
            .memory = std::unique_ptr<std::byte[]>(new (std::nothrow) std::byte[request.bytes]),
            .size = request.bytes};
        if (staged.memory == nullptr) return fail(ErrorCode::kOutOfMemory, "stage a large object");
        YONDER_TRY(version, lanes_->take(context.connection.value())->read(object, staged.bytes()));
        metrics_.read_bytes.add(request.bytes);
        YONDER_TRY(ticket, stages_.keep(context.connection, std::move(staged)));
        return protocol::StageReadAnswer{.ticket = ticket, .place = place_of(object, version)};
      });
  server_->handle<protocol::Put>(
      [this](const Context& context, const protocol::PutRequest& request) -> Result<rpc::Empty> {
        YONDER_TRY_VOID(stages_.put(context.connection, request.ticket, request.offset, request.data));
        return rpc::Empty{};
      });
  server_->handle<protocol::Commit>(
      [this](const Context& context, const protocol::CommitRequest& request) -> Result<PlaceAnswer> {
        YONDER_TRY(staged, stages_.take(context.connection, request.ticket));
        return write(*lanes_->take(context.connection.value()), {.object = request.pointer.object(),
                                                                 .conditional = request.conditional != 0,
                                                                 .expected = request.expected,
                                                                 .data = staged.bytes()});
      });
  server_->handle<protocol::Drop>(
      [this](const Context& context, const protocol::TicketMessage& request) -> Result<rpc::Empty> {
        YONDER_TRY_VOID(stages_.drop(context.connection, request.ticket));
        return rpc::Empty{};
      });
  server_->handle_raw(protocol::kGet, [this](const Context& context, std::span<const std::byte> bytes,
                                             RawResponder responder) {
    answer_raw(std::move(responder), [&](std::span<std::byte> out) -> Result<std::size_t> {
      protocol::GetRequest request;
      if (!rpc::decode_message(bytes, request)) return fail(ErrorCode::kBadRequest, "get");
      if (request.bytes > out.size()) return fail(ErrorCode::kMessageTooLong, "get");
      YONDER_TRY_VOID(
          stages_.get(context.connection, request.ticket, request.offset, out.first(request.bytes)));
      return request.bytes;
    });
  });
}

void Port::add_extent_handlers() {
  using protocol::ExtentRequest;
  using protocol::TokenAnswer;
  constexpr rpc::MethodOptions kSlow{.run = rpc::Run::kWorker};
  server_->handle<protocol::MakeExtent>(
      [this](const Context& context, const ExtentRequest& request) -> Result<TokenAnswer> {
        YONDER_TRY(token, extents_.create(context.tenant, request.name, request.bytes, number_));
        return TokenAnswer{token};
      },
      kSlow);
  server_->handle<protocol::OpenExtent>(
      [this](const Context& context, const ExtentRequest& request) -> Result<TokenAnswer> {
        YONDER_TRY(token, extents_.open(context.tenant, request.name, number_));
        return TokenAnswer{token};
      },
      kSlow);
  server_->handle<protocol::DropExtent>(
      [this](const Context& context, const ExtentRequest& request) -> Result<rpc::Empty> {
        YONDER_TRY_VOID(remove_extent(context.tenant, request.name));
        return rpc::Empty{};
      },
      kSlow);
}

}  // namespace yonder::node::internal
