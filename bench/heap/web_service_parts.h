#pragma once
// What the web service is made of, for those that run parts of it elsewhere: a table in the heap,
// the content of elements, the compressor and the cipher of replies.
//
// Concurrency: a Table is built by one thread and read by any; a Replier is one thread's.
// Lifetime: values.

#include <openssl/evp.h>

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <memory>
#include <optional>
#include <span>
#include <type_traits>
#include <utility>
#include <vector>

#include "bench/heap/compress.h"
#include "bench/heap/workload.h"
#include "yonder/base/check.h"
#include "yonder/base/distribution.h"
#include "yonder/base/prng.h"
#include "yonder/heap/relocatable.h"

namespace yonder::bench::heap {

inline constexpr unsigned kLookups = 32;
inline constexpr double kTheta = 0.8;
inline constexpr std::size_t kElementBytes = 8192;
inline constexpr std::uint64_t kEntriesPerChain = 4;

inline std::uint64_t mixed(std::uint64_t number) { return splitmix64(number); }

// Of a service of so many bytes: keys of the table, and elements.
inline std::uint64_t service_keys(std::uint64_t bytes) { return bytes * 10 / 26 / 32; }
inline std::uint64_t service_elements(std::uint64_t bytes) { return bytes * 16 / 26 / kElementBytes; }
// A request touches 9 KiB: so each byte three times.
inline std::uint64_t service_requests(std::uint64_t bytes, double effort) {
  return static_cast<std::uint64_t>(effort * static_cast<double>(bytes / 3072));
}

template <typename Memory>
struct TableEntry {
  std::uint64_t key = 0;
  std::uint64_t value = 0;
  typename Memory::template Ptr<TableEntry> next;
};

}  // namespace yonder::bench::heap

template <typename Memory>
struct yonder::heap::is_relocatable<yonder::bench::heap::TableEntry<Memory>> : std::true_type {};

namespace yonder::bench::heap {

// Keys 0 … keys - 1; the value of a key is mixed(key).
template <typename Memory>
class Table {
 public:
  explicit Table(std::uint64_t keys) : chains_(keys / kEntriesPerChain + 1) {}

  // In any order, by one thread.
  void add(std::uint64_t key) {
    Ptr& chain = chains_[mixed(key) % chains_.size()];
    Ptr added = Memory::template make<TableEntry<Memory>>();
    const auto entry = added.write();
    entry->key = key;
    entry->value = mixed(key);
    entry->next = std::move(chain);
    chain = std::move(added);
  }
  // Hints that the key will be looked up soon, to be given one after the other: its chain comes near,
  // and the first entry of that.
  void prefetch_chain(std::uint64_t key) const { __builtin_prefetch(&chains_[mixed(key) % chains_.size()]); }
  void prefetch_entry(std::uint64_t key) const { chains_[mixed(key) % chains_.size()].prefetch(); }
  // The values of all keys, at most kTogether of them; 0: not there. Chains are followed side by side:
  // while one waits for its next entry the others have asked for theirs.
  void find(std::span<const std::uint64_t> keys, std::span<std::uint64_t> values) const {
    std::array<std::optional<Entry>, kTogether> at;
    for (std::size_t i = 0; i < keys.size(); ++i) {
      values[i] = 0;
      if (const Ptr& chain = chains_[mixed(keys[i]) % chains_.size()]) at[i] = chain.read();
    }
    for (bool go_on = true; go_on;) {
      go_on = false;
      for (std::size_t i = 0; i < keys.size(); ++i) {
        if (at[i] && is_last(**at[i], keys[i], values[i])) at[i].reset();
        if (at[i]) (*at[i])->next.prefetch();
      }
      for (std::optional<Entry>& entry : at) {
        if (entry) entry = (*entry)->next.read();
        go_on |= entry.has_value();
      }
    }
  }

  static constexpr std::size_t kTogether = 6;  // A far heap has eight cheap guards for a thread.

 private:
  using Ptr = typename Memory::template Ptr<TableEntry<Memory>>;
  using Entry = decltype(std::declval<const Ptr&>().read());

  static bool is_last(const TableEntry<Memory>& entry, std::uint64_t key, std::uint64_t& value) {
    if (entry.key == key) value = entry.value;
    return entry.key == key || !entry.next;
  }

  std::vector<Ptr> chains_;
};

// The look-ups of a request: all of them are known at its beginning, and said to be.
template <typename Memory>
class Lookups {
 public:
  Lookups(const Table<Memory>& table, std::uint64_t keys, std::uint64_t seed)
      : table_(table), keys_({.items = keys, .theta = kTheta}), random_(seed) {}

  // Looks up kLookups keys and returns the first of them.
  std::uint64_t operator()(Measured& measured) {
    std::array<std::uint64_t, kLookups> keys;
    for (std::uint64_t& key : keys) table_.prefetch_chain(key = keys_.next(random_));
    for (const std::uint64_t key : keys) table_.prefetch_entry(key);
    std::array<std::uint64_t, kLookups> values;
    for (std::size_t first = 0; first < kLookups; first += Table<Memory>::kTogether) {
      const std::size_t count = std::min(Table<Memory>::kTogether, kLookups - first);
      table_.find(std::span(keys).subspan(first, count), std::span(values).subspan(first, count));
    }
    for (std::size_t i = 0; i < kLookups; ++i) {
      measured.wrong_objects += values[i] == mixed(keys[i]) ? 0 : 1;
      measured.checksum += values[i];
    }
    return keys.front();
  }

 private:
  const Table<Memory>& table_;
  Zipfian keys_;
  Prng random_;
};

// A part of an element: a quarter as much when compressed.
inline void fill_part(std::span<std::byte> bytes, Prng& random) {
  const std::uint64_t phrase = random();
  for (std::size_t at = 0; at < bytes.size(); at += 16) {
    const std::array words = {phrase, random() & 0xffffff};
    std::memcpy(bytes.data() + at, words.data(), 16);
  }
}

class Cipher {
 public:
  std::span<const std::byte> encrypt(std::span<const std::byte> in) {
    out_.resize(in.size() + EVP_MAX_BLOCK_LENGTH);
    auto* const out = reinterpret_cast<unsigned char*>(out_.data());
    int bytes = 0;
    const int size = static_cast<int>(in.size());
    YONDER_CHECK(
        EVP_EncryptInit_ex(context_.get(), EVP_aes_128_ctr(), nullptr, kKey.data(), kKey.data()) == 1 &&
            EVP_EncryptUpdate(context_.get(), out, &bytes, reinterpret_cast<const unsigned char*>(in.data()),
                              size) == 1,
        "a stream cipher takes any bytes");
    return std::span(out_).first(static_cast<std::size_t>(bytes));
  }

 private:
  struct Free {
    void operator()(EVP_CIPHER_CTX* context) const { EVP_CIPHER_CTX_free(context); }
  };
  static constexpr std::array<unsigned char, 16> kKey = {7};
  std::unique_ptr<EVP_CIPHER_CTX, Free> context_{EVP_CIPHER_CTX_new()};
  std::vector<std::byte> out_;
};

// What a client gets of an element.
class Replier {
 public:
  std::span<const std::byte> reply(std::span<const std::byte> element) {
    return cipher_.encrypt(compressor_.compress(element));
  }

 private:
  Compressor compressor_;
  Cipher cipher_;
};

inline std::uint64_t checksum_of(std::span<const std::byte> reply) {
  std::uint64_t word;
  std::memcpy(&word, reply.data(), sizeof(word));
  return reply.size() * word;
}

}  // namespace yonder::bench::heap
