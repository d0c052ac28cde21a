#include "yonder/structures/hash_table.h"

#include <algorithm>
#include <array>
#include <utility>

#include "yonder/base/secure_random.h"
#include "yonder/remote/chain.h"
#include "yonder/structures/internal/table_core.h"

namespace yonder::structures {

using fabric::LocalPiece;
using internal::ArrayWord;
using internal::Change;
using internal::TableCore;
using internal::TableShape;
using remote::Chain;

namespace {

constexpr std::uint32_t kTableBuffers = 32;

Result<void> check_table_rights(const RegionToken& token) {
  if (fabric::allows(token.rights, fabric::Rights::kAll)) return {};
  return fail(ErrorCode::kInvalidArgument, "hash table: memory to be read, written and done atomics in");
}

Task<Result<TableVersion>> refuse(Error why) { co_return std::unexpected(why); }

}  // namespace

Task<Result<void>> HashTable::async_create(remote::Port port, RegionToken token, TableOptions options,
                                           Deadline deadline) {
  if (const auto rights = check_table_rights(token); !rights) co_return rights;
  if (options.log2_buckets < 4 || options.log2_buckets > 40) {
    co_return fail(ErrorCode::kInvalidArgument, "hash table: its first buckets", options.log2_buckets);
  }
  const ArrayWord array{.log2 = options.log2_buckets, .offset = TableShape::kSpaceBegin};
  if (token.length < array.offset + array.bytes()) {
    co_return fail(ErrorCode::kInvalidArgument, "hash table: too little memory", token.length);
  }
  TableShape shape{.bytes = token.length, .hash_seed = options.hash_seed};
  if (shape.hash_seed == 0) {
    const auto random = secure_random_u64();
    if (!random) co_return std::unexpected(random.error());
    shape.hash_seed = *random;
  }
  shape.check = shape.expected_check();
  const auto before = co_await port.async_compare_swap(token.at(TableShape::kMagicOffset), 0,
                                                       internal::kTableMaking, deadline);
  if (!before) co_return std::unexpected(before.error());
  if (*before != 0) co_return fail(ErrorCode::kAlreadyExists, "create a hash table: the memory is in use");
  const std::uint64_t space = array.offset + array.bytes();
  const std::uint64_t current = array.word();
  const auto bytes_of = [](const auto& value) { return LocalPiece::of(std::as_bytes(std::span(&value, 1))); };
  Chain chain(port);
  chain.write(bytes_of(shape), token.at(TableShape::kOffset));
  // By atomics, as all that follow (AtomicsBy).
  chain.fetch_add(token.at(TableShape::kSpaceOffset), space);
  chain.fetch_add(token.at(TableShape::kCurrentOffset), current);
  chain.compare_swap(token.at(TableShape::kMagicOffset), internal::kTableMaking, internal::kTableReady);
  co_return co_await chain.run(deadline);
}

Task<Result<std::unique_ptr<HashTable>>> HashTable::async_open(fabric::Fabric& fabric, remote::Port port,
                                                               RegionToken token, FrontEndOptions options,
                                                               Deadline deadline) {
  if (const auto rights = check_table_rights(token); !rights) co_return std::unexpected(rights.error());
  if (token.length < TableShape::kSpaceBegin || options.chunk_bytes == 0 || options.chunk_bytes % 4096 != 0) {
    co_return fail(ErrorCode::kInvalidArgument, "open a hash table: its memory, or whole pages as chunks");
  }
  struct {
    std::uint64_t magic = 0;
    TableShape shape;
  } front;
  const auto read =
      co_await port.async_read(LocalPiece::of(std::as_bytes(std::span(&front, 1))), token.at(0), deadline);
  if (!read) co_return std::unexpected(read.error());
  if (front.magic == 0 || front.magic == internal::kTableMaking) {
    co_return fail(ErrorCode::kNotFound, "open a hash table: there is none, or it is not finished");
  }
  if (front.magic != internal::kTableReady || front.shape.check != front.shape.expected_check() ||
      front.shape.bytes > token.length) {
    co_return fail(ErrorCode::kCorrupt, "open a hash table: something else is there");
  }
  auto pool = remote::BufferPool::create(
      fabric, {.buffers = kTableBuffers, .buffer_bytes = internal::kMaxImageBytes});
  if (!pool) co_return std::unexpected(pool.error());
  auto core = std::make_unique<TableCore>(port, token, front.shape, options, *std::move(pool));
  if (const auto known = co_await core->refresh(deadline); !known) co_return std::unexpected(known.error());
  co_return std::unique_ptr<HashTable>(new HashTable(std::move(core)));
}

HashTable::HashTable(std::unique_ptr<TableCore> core) : core_(std::move(core)) {}
HashTable::~HashTable() = default;

const TableStats& HashTable::stats() const { return core_->stats(); }

// ---------------------------------------------------------------- coroutines

Task<Result<TableVersion>> HashTable::async_find(std::span<const std::byte> key,
                                                 std::vector<std::byte>& value, Deadline deadline) {
  return core_->find(key, value, deadline);
}

Task<void> HashTable::async_find_many(std::span<FindItem> items, Deadline deadline) {
  return core_->find_many(items, deadline);
}

Task<Result<TableVersion>> HashTable::async_put(std::span<const std::byte> key,
                                                std::span<const std::byte> value, Deadline deadline) {
  return change(Change{.kind = Change::Kind::kPut, .key = key, .value = value, .deadline = deadline});
}

Task<Result<TableVersion>> HashTable::async_insert(std::span<const std::byte> key,
                                                   std::span<const std::byte> value, Deadline deadline) {
  return change(Change{.kind = Change::Kind::kInsert, .key = key, .value = value, .deadline = deadline});
}

Task<Result<TableVersion>> HashTable::async_update(std::span<const std::byte> key,
                                                   std::span<const std::byte> value, Deadline deadline) {
  return change(Change{.kind = Change::Kind::kUpdate, .key = key, .value = value, .deadline = deadline});
}

Task<Result<TableVersion>> HashTable::async_update_if(std::span<const std::byte> key, TableVersion expected,
                                                      std::span<const std::byte> value, Deadline deadline) {
  return change(Change{.kind = Change::Kind::kUpdateIf,
                       .key = key,
                       .value = value,
                       .expected = expected,
                       .deadline = deadline});
}

Task<Result<TableVersion>> HashTable::async_erase(std::span<const std::byte> key, Deadline deadline) {
  return change(Change{.kind = Change::Kind::kErase, .key = key, .deadline = deadline});
}

Task<Result<TableVersion>> HashTable::change(const Change& change) {
  if (const auto good = TableCore::check_key(change.key); !good) return refuse(good.error());
  if (const auto good = TableCore::check_value(change.value); !good) return refuse(good.error());
  return core_->change(change);
}

Task<Result<std::vector<ScannedEntry>>> HashTable::async_scan(ScanCursor& cursor, Deadline deadline) {
  return core_->scan(cursor, deadline);
}

Task<Result<void>> HashTable::async_flush(Deadline deadline) { return core_->flush(deadline); }
Task<Result<void>> HashTable::async_close(Deadline deadline) { return core_->close(deadline); }
Task<Result<std::uint64_t>> HashTable::async_size(Deadline deadline) { return core_->size(deadline); }
Task<Result<void>> HashTable::async_grow(Deadline deadline) { return core_->grow(deadline); }

// ---------------------------------------------------------------- blocking

Result<TableVersion> HashTable::find(std::span<const std::byte> key, std::vector<std::byte>& value,
                                     Deadline deadline) {
  if (const auto good = TableCore::check_key(key); !good) return std::unexpected(good.error());
  if (const auto near = core_->find_near(key, value)) return *near;
  return core_->port().run(async_find(key, value, deadline));
}
void HashTable::find_many(std::span<FindItem> items, Deadline deadline) {
  // Where finds are loads there is no trip to share.
  const auto is_near = [&](FindItem& item) {
    if (!TableCore::check_key(item.key)) return false;
    const auto found = core_->find_near(item.key, item.value);
    if (found) item.result = *found;
    return found.has_value();
  };
  if (std::ranges::all_of(items, is_near)) return;
  core_->port().run(async_find_many(items, deadline));
}
Result<TableVersion> HashTable::put(std::span<const std::byte> key, std::span<const std::byte> value,
                                    Deadline deadline) {
  return core_->port().run(async_put(key, value, deadline));
}
Result<TableVersion> HashTable::insert(std::span<const std::byte> key, std::span<const std::byte> value,
                                       Deadline deadline) {
  return core_->port().run(async_insert(key, value, deadline));
}
Result<TableVersion> HashTable::update(std::span<const std::byte> key, std::span<const std::byte> value,
                                       Deadline deadline) {
  return core_->port().run(async_update(key, value, deadline));
}
Result<TableVersion> HashTable::update_if(std::span<const std::byte> key, TableVersion expected,
                                          std::span<const std::byte> value, Deadline deadline) {
  return core_->port().run(async_update_if(key, expected, value, deadline));
}
Result<TableVersion> HashTable::erase(std::span<const std::byte> key, Deadline deadline) {
  return core_->port().run(async_erase(key, deadline));
}
Result<std::vector<ScannedEntry>> HashTable::scan(ScanCursor& cursor, Deadline deadline) {
  return core_->port().run(async_scan(cursor, deadline));
}
Result<void> HashTable::flush(Deadline deadline) { return core_->port().run(async_flush(deadline)); }
Result<void> HashTable::close(Deadline deadline) { return core_->port().run(async_close(deadline)); }
Result<std::uint64_t> HashTable::size(Deadline deadline) { return core_->port().run(async_size(deadline)); }
Result<void> HashTable::grow(Deadline deadline) { return core_->port().run(async_grow(deadline)); }

}  // namespace yonder::structures
