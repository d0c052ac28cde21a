// Batches of requests: as many operations in one message as fit.
#include <cstring>
#include <utility>

#include "yonder/client/internal/batch.h"
#include "yonder/client/internal/session_core.h"

namespace yonder::client::internal {

using node::protocol::AllocRequest;
using node::protocol::Item;
using node::protocol::PlaceAnswer;
using node::protocol::PointerMessage;
using node::protocol::ReadRequest;
using node::protocol::WriteRequest;

namespace {

template <rpc::Message T>
Result<T> decode(const Result<std::span<const std::byte>>& bytes) {
  if (!bytes) return std::unexpected(bytes.error());
  T message;
  if (!rpc::decode_message(*bytes, message)) return fail(ErrorCode::kCorrupt, "answer to a batch");
  return message;
}

// Where a write left the object, and its version.
Result<ObjectVersion> take_place(const Result<std::span<const std::byte>>& bytes, ObjectPtr& object) {
  const Result<PlaceAnswer> answer = decode<PlaceAnswer>(bytes);
  if (!answer) return std::unexpected(answer.error());
  object = object.with_slot(answer->slot);
  return ObjectVersion(answer->version);
}

Result<ObjectVersion> take_read(const Result<std::span<const std::byte>>& bytes, ReadItem& item) {
  if (!bytes) return std::unexpected(bytes.error());
  PlaceAnswer place;
  if (bytes->size() != sizeof place + item.out.size()) return fail(ErrorCode::kCorrupt, "answer to a batch");
  std::memcpy(&place, bytes->data(), sizeof place);
  if (!item.out.empty()) std::memcpy(item.out.data(), bytes->data() + sizeof place, item.out.size());
  item.object = item.object.with_slot(place.slot);
  return ObjectVersion(place.version);
}

}  // namespace

// `add` puts an item into a batch (false: it does not fit), `take` takes its answer,
// `alone` does it without a batch (it fits none).
template <typename ItemType, typename Add, typename Take, typename Alone>
Task<void> SessionCore::in_batches(std::span<ItemType> items, Deadline deadline, Add add, Take take,
                                   Alone alone) {
  deadline = or_default(deadline);
  while (!items.empty()) {
    Batch batch(max_data_ + kMaxHeadBytes, scratch_);
    std::size_t count = 0;
    while (count < items.size() && add(batch, items[count])) ++count;
    if (count == 0) {
      co_await alone(items.front(), deadline);
      items = items.subspan(1);
      continue;
    }
    const auto length =
        co_await rpc_->call_raw(node::protocol::kBatch, batch.request(), batch.answer(), deadline);
    batch.open(length);
    for (ItemType& item : items.first(count)) take(batch, item);
    items = items.subspan(count);
  }
}

Task<void> SessionCore::alloc_many(std::span<AllocItem> items, Deadline deadline) {
  return in_batches(
      items, deadline,
      [](Batch& batch, const AllocItem& item) {
        return batch.add<AllocRequest>(Item::kAlloc, {.bytes = item.bytes}, sizeof(PointerMessage));
      },
      [](Batch& batch, AllocItem& item) {
        const auto answer = decode<PointerMessage>(batch.next());
        item.result = answer ? Result<ObjectPtr>(answer->object()) : std::unexpected(answer.error());
      },
      [this](AllocItem& item, Deadline until) -> Task<void> {
        item.result = co_await alloc(item.bytes, until);
      });
}

Task<void> SessionCore::free_many(std::span<FreeItem> items, Deadline deadline) {
  return in_batches(
      items, deadline,
      [](Batch& batch, const FreeItem& item) {
        return batch.add(Item::kFree, PointerMessage(item.object), 0);
      },
      [](Batch& batch, FreeItem& item) { item.result = outcome_of(decode<rpc::Empty>(batch.next())); },
      [this](FreeItem& item, Deadline until) -> Task<void> {
        item.result = co_await free(item.object, until);
      });
}

Task<void> SessionCore::read_many(std::span<ReadItem> items, Deadline deadline) {
  return in_batches(
      items, deadline,
      [](Batch& batch, const ReadItem& item) {
        return batch.add<ReadRequest>(Item::kRead,
                                      {.pointer = PointerMessage(item.object), .bytes = item.out.size()},
                                      sizeof(PlaceAnswer) + item.out.size());
      },
      [](Batch& batch, ReadItem& item) { item.result = take_read(batch.next(), item); },
      [this](ReadItem& item, Deadline until) -> Task<void> {
        item.result = co_await read(item.object, item.out, until);
      });
}

Task<void> SessionCore::write_many(std::span<WriteItem> items, Deadline deadline) {
  return in_batches(
      items, deadline,
      [](Batch& batch, const WriteItem& item) {
        return batch.add<WriteRequest>(Item::kWrite, {.object = item.object, .data = item.data},
                                       sizeof(PlaceAnswer));
      },
      [](Batch& batch, WriteItem& item) { item.result = take_place(batch.next(), item.object); },
      [this](WriteItem& item, Deadline until) -> Task<void> {
        item.result = co_await write(item.object, nullptr, item.data, until);
      });
}

Task<void> SessionCore::write_if_version_many(std::span<ConditionalWriteItem> items, Deadline deadline) {
  return in_batches(
      items, deadline,
      [](Batch& batch, const ConditionalWriteItem& item) {
        return batch.add<WriteRequest>(Item::kWrite,
                                       {.object = item.object,
                                        .conditional = true,
                                        .expected = item.expected.value(),
                                        .data = item.data},
                                       sizeof(PlaceAnswer));
      },
      [](Batch& batch, ConditionalWriteItem& item) { item.result = take_place(batch.next(), item.object); },
      [this](ConditionalWriteItem& item, Deadline until) -> Task<void> {
        item.result = co_await write(item.object, &item.expected, item.data, until);
      });
}

Task<void> SessionCore::find_many(std::span<PointerItem> items, Deadline deadline) {
  return in_batches(
      items, deadline,
      [](Batch& batch, const PointerItem& item) {
        return batch.add(Item::kFind, PointerMessage(item.object), sizeof(PointerMessage));
      },
      [](Batch& batch, PointerItem& item) {
        const auto answer = decode<PointerMessage>(batch.next());
        if (answer) item.object = item.object.with_slot(answer->object().slot());
        item.result = outcome_of(answer);
      },
      [this](PointerItem& item, Deadline until) -> Task<void> {
        item.result = co_await find(item.object, until);
      });
}

Task<void> SessionCore::release_many(std::span<PointerItem> items, Deadline deadline) {
  return in_batches(
      items, deadline,
      [](Batch& batch, const PointerItem& item) {
        return batch.add(Item::kRelease, PointerMessage(item.object), sizeof(PointerMessage));
      },
      [](Batch& batch, PointerItem& item) {
        const auto answer = decode<PointerMessage>(batch.next());
        if (answer) item.object = answer->object();
        item.result = outcome_of(answer);
      },
      [this](PointerItem& item, Deadline until) -> Task<void> {
        item.result = co_await release(item.object, until);
      });
}

}  // namespace yonder::client::internal
