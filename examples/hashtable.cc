// Several front ends count words in one hash table in remote memory: none of them holds data,
// and each sees what the others did.
#include <algorithm>
#include <cstdio>
#include <cstring>
#include <span>
#include <string>
#include <string_view>
#include <thread>
#include <vector>

#include "examples/some_node.h"
#include "yonder/structures/hash_table.h"

namespace {

using yonder::ErrorCode;
using yonder::Result;
using yonder::structures::HashTable;

constexpr std::string_view kText =
    "the rain in spain stays mainly in the plain the rain that fell in the plain of spain";
constexpr std::uint32_t kFrontEnds = 3;
constexpr std::uint32_t kRounds = 50;

std::string table_name() { return "examples/words-" + std::to_string(::getpid()); }
std::span<const std::byte> bytes_of(std::string_view text) { return std::as_bytes(std::span(text)); }
std::span<const std::byte> bytes_of(const std::uint64_t& number) {
  return std::as_bytes(std::span(&number, 1));
}

std::uint64_t number_in(std::span<const std::byte> bytes) {
  std::uint64_t number = 0;
  if (bytes.size() == sizeof number) std::memcpy(&number, bytes.data(), sizeof number);
  return number;
}

// Adds one to a word's count. Others do the same meanwhile, so the new count is written only
// if the entry still has the version that was read: else it is read again.
Result<void> count(HashTable& table, std::string_view word) {
  std::vector<std::byte> value;
  for (;;) {
    const auto version = table.find(bytes_of(word), value);
    if (!version && version.error() != ErrorCode::kNotFound) return std::unexpected(version.error());
    const std::uint64_t next = version ? number_in(value) + 1 : 1;
    const auto done = version ? table.update_if(bytes_of(word), *version, bytes_of(next))
                              : table.insert(bytes_of(word), bytes_of(next));
    if (done) return {};
    if (done.error() != ErrorCode::kVersionMismatch && done.error() != ErrorCode::kAlreadyExists) {
      return std::unexpected(done.error());
    }
  }
}

Result<void> count_all(const std::string& address) {
  YONDER_TRY(way, examples::Way::to(address));
  YONDER_TRY(memory, way.session().open(table_name()));
  YONDER_TRY(table, HashTable::open(way.fabric(), way.port(), memory));
  for (std::uint32_t round = 0; round < kRounds; ++round) {
    for (std::size_t begin = 0; begin < kText.size();) {
      const std::size_t end = std::min(kText.find(' ', begin), kText.size());
      YONDER_TRY_VOID(count(*table, kText.substr(begin, end - begin)));
      begin = end + 1;
    }
  }
  return table->close();  // Its free space is for the others.
}

Result<void> show(HashTable& table) {
  // Several keys for the price of one.
  std::vector<yonder::structures::FindItem> items;
  for (const std::string_view word : {"the", "rain", "snow"}) items.push_back({.key = bytes_of(word)});
  table.find_many(items);
  for (const auto& item : items) {
    std::printf("%.*s: %llu\n", static_cast<int>(item.key.size()),
                reinterpret_cast<const char*>(item.key.data()),
                static_cast<unsigned long long>(item.result ? number_in(item.value) : 0));
  }
  // And all of them, a few buckets at a time.
  std::uint64_t words = 0;
  std::uint64_t total = 0;
  for (yonder::structures::ScanCursor cursor; !cursor.done;) {
    YONDER_TRY(entries, table.scan(cursor));
    words += entries.size();
    for (const auto& entry : entries) total += number_in(entry.value);
  }
  std::printf("%llu words, %llu in all\n", static_cast<unsigned long long>(words),
              static_cast<unsigned long long>(total));
  const auto in_text = static_cast<std::uint64_t>(std::ranges::count(kText, ' ')) + 1;
  if (total == in_text * kFrontEnds * kRounds) return {};
  return yonder::fail(ErrorCode::kCorrupt, "a count was lost", total);
}

Result<void> run(int argc, char** argv) {
  YONDER_TRY(node, examples::SomeNode::find_or_start(argc, argv));
  YONDER_TRY(way, examples::Way::to(node.address()));
  YONDER_TRY(memory, way.session().create(table_name(), 4 << 20));
  YONDER_TRY_VOID(HashTable::create(way.port(), memory));

  std::vector<Result<void>> counted(kFrontEnds);
  std::vector<std::thread> front_ends;
  for (std::uint32_t i = 0; i < kFrontEnds; ++i) {
    front_ends.emplace_back([&, i] { counted[i] = count_all(node.address()); });
  }
  for (std::thread& front_end : front_ends) front_end.join();
  for (const Result<void>& each : counted) YONDER_TRY_VOID(each);
  YONDER_TRY(table, HashTable::open(way.fabric(), way.port(), memory));
  YONDER_TRY_VOID(show(*table));
  return way.session().remove(table_name());
}

}  // namespace

int main(int argc, char** argv) {
  const Result<void> done = run(argc, argv);
  if (!done) std::fprintf(stderr, "%s\n", done.error().to_string().c_str());
  return done ? 0 : 1;
}
