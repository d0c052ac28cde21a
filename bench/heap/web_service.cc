#include "bench/heap/web_service.h"

#include <openssl/evp.h>

#include <array>
#include <cstring>
#include <memory>
#include <vector>

#include "bench/heap/compress.h"
#include "bench/heap/memory.h"
#include "bench/heap/requests.h"
#include "bench/heap/workers.h"
#include "yonder/base/check.h"
#include "yonder/base/distribution.h"
#include "yonder/base/prng.h"
#include "yonder/heap/slot_store.h"

namespace yonder::bench::heap {
namespace {

constexpr unsigned kLookups = 32;
constexpr double kTheta = 0.8;
constexpr std::size_t kElementBytes = 8192;
constexpr std::uint64_t kEntriesPerChain = 4;

std::uint64_t mixed(std::uint64_t number) { return splitmix64(number); }

template <typename Memory>
struct TableEntry {
  std::uint64_t key = 0;
  std::uint64_t value = 0;
  typename Memory::template Ptr<TableEntry> next;
};

}  // namespace
}  // namespace yonder::bench::heap

template <typename Memory>
struct yonder::heap::is_relocatable<yonder::bench::heap::TableEntry<Memory>> : std::true_type {};

namespace yonder::bench::heap {
namespace {

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
  // 0: not there.
  std::uint64_t find(std::uint64_t key) const {
    const Ptr& chain = chains_[mixed(key) % chains_.size()];
    if (!chain) return 0;
    for (auto entry = chain.read();; entry = entry->next.read()) {
      if (entry->key == key) return entry->value;
      if (!entry->next) return 0;
    }
  }

 private:
  using Ptr = typename Memory::template Ptr<TableEntry<Memory>>;
  std::vector<Ptr> chains_;
};

// Two pages; a quarter as much when compressed.
template <typename Memory>
class Element {
 public:
  void fill(std::uint64_t number) {
    Prng random(number);
    for (Half& half : halves_) {
      half = Memory::template make_array<std::byte>(far::kPageBytes);
      const auto bytes = half.write();
      const std::uint64_t phrase = random();
      for (std::size_t at = 0; at < bytes.size(); at += 16) {
        const std::array words = {phrase, random() & 0xffffff};
        std::memcpy(bytes.data() + at, words.data(), 16);
      }
    }
  }
  void copy_to(std::span<std::byte> out) const {
    for (const Half& half : halves_) {
      const auto bytes = half.read();
      std::memcpy(out.data(), bytes.data(), bytes.size());
      out = out.subspan(bytes.size());
    }
  }

 private:
  using Half = typename Memory::template Ptr<std::byte[]>;
  std::array<Half, kElementBytes / far::kPageBytes> halves_;
};

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

template <typename Memory>
class Service {
 public:
  explicit Service(const Work& work)
      : keys_(work.bytes * 10 / 26 / 32), elements_(work.bytes * 16 / 26 / kElementBytes), table_(keys_) {
    const Scatter order(keys_);
    for (std::uint64_t i = 0; i < keys_; ++i) table_.add(order(i));
    for (std::uint64_t i = 0; i < elements_.size(); ++i) elements_[i].fill(i);
  }

  std::uint64_t keys() const { return keys_; }
  const Table<Memory>& table() const { return table_; }
  const Element<Memory>& element(std::uint64_t number) const { return elements_[number % elements_.size()]; }

 private:
  std::uint64_t keys_;
  std::vector<Element<Memory>> elements_;
  Table<Memory> table_;
};

// Serves the requests of one thread.
template <typename Memory>
class Server {
 public:
  Server(const Service<Memory>& service, std::uint64_t seed)
      : service_(service), keys_({.items = service.keys(), .theta = kTheta}), random_(seed) {}

  void serve(Measured& measured) {
    std::uint64_t sum = 0;
    std::uint64_t first_rank = 0;
    for (unsigned i = 0; i < kLookups; ++i) {
      const std::uint64_t rank = keys_.next(random_);
      const std::uint64_t value = service_.table().find(rank);
      measured.wrong_objects += value == mixed(rank) ? 0 : 1;
      sum += value;
      if (i == 0) first_rank = rank;
    }
    service_.element(mixed(first_rank)).copy_to(element_);
    const auto reply = cipher_.encrypt(compressor_.compress(element_));
    std::uint64_t word;
    std::memcpy(&word, reply.data(), sizeof(word));
    measured.checksum += sum + reply.size() * word;
    ++measured.operations;
  }

 private:
  const Service<Memory>& service_;
  Zipfian keys_;
  Prng random_;
  std::array<std::byte, kElementBytes> element_;
  Compressor compressor_;
  Cipher cipher_;
};

}  // namespace

template <typename Memory>
Measured run_web_service(const Work& work) {
  const Service<Memory> service(work);
  // A request touches 9 KiB: so each byte three times.
  const auto requests = static_cast<std::uint64_t>(work.effort * static_cast<double>(work.bytes / 3072));
  std::vector<std::unique_ptr<Server<Memory>>> servers;
  for (unsigned t = 0; t < work.threads; ++t)
    servers.push_back(std::make_unique<Server<Memory>>(service, work.seed * 19 + t));
  const auto serve = [&](const Work& load, std::uint64_t count) {
    std::vector<Measured> results(work.threads);
    on_threads(work.threads, [&](unsigned t) {
      Schedule schedule(load);
      for (std::uint64_t i = 0; i < count / work.threads; ++i) {
        const Instant due = schedule.next();
        servers[t]->serve(results[t]);
        results[t].latency_ns.record(Schedule::elapsed_ns(due));
      }
    });
    return results;
  };
  Work closed = work;
  closed.requests_per_s = 0;
  serve(closed, requests / 2);  // Until local memory holds what is hot.
  if (work.on_measure) work.on_measure();
  const Instant begin = os::SteadyClock::read();
  const std::vector<Measured> results = serve(work, requests);
  return finish(work, results, seconds_since(begin));
}

template Measured run_web_service<Far>(const Work&);
template Measured run_web_service<Plain>(const Work&);
template Measured run_web_service<Faulted>(const Work&);

}  // namespace yonder::bench::heap
