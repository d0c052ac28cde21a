#pragma once
// The fixture of the hash table's tests: a table in the bed's memory.
//
// Concurrency: the test's thread. Lifetime: tables go before the bed.

#include <memory>
#include <span>
#include <string>
#include <vector>

#include "yonder/remote/suite/bed.h"
#include "yonder/structures/hash_table.h"
#include "yonder/structures/suite/text.h"

namespace yonder::structures::suite {

class TableSuite : public remote::suite::RemoteSuite {
 protected:
  void make(const TableOptions& options = {.log2_buckets = 4}) {
    const auto made = HashTable::create(connect().port(), token(), options);
    ASSERT_TRUE(made) << made.error();
  }
  std::unique_ptr<HashTable> open(remote::suite::Client& client, const FrontEndOptions& options = {}) {
    return HashTable::open(place_->client_fabric(), client.port(), token(), options).value();
  }
  std::unique_ptr<HashTable> open(const FrontEndOptions& options = {}) { return open(connect(), options); }
  Deadline within(Duration duration) const {
    return Deadline::after(place_->client_fabric().clock(), duration);
  }

  // The value, or the error's name.
  static std::string find(HashTable& table, const std::string& key) {
    std::vector<std::byte> value;
    const auto found = table.find(bytes_of(key), value);
    return found ? text_of(value) : std::string(error_name(found.error().code()));
  }
};

}  // namespace yonder::structures::suite
