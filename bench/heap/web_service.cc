#include "bench/heap/web_service.h"

#include <array>
#include <cstring>
#include <memory>
#include <vector>

#include "bench/heap/memory.h"
#include "bench/heap/requests.h"
#include "bench/heap/web_service_parts.h"
#include "bench/heap/workers.h"
#include "yonder/base/distribution.h"
#include "yonder/base/prng.h"
#include "yonder/heap/slot_store.h"

namespace yonder::bench::heap {
namespace {

// Two pages; a quarter as much when compressed.
template <typename Memory>
class Element {
 public:
  void fill(std::uint64_t number) {
    Prng random(number);
    for (Half& half : halves_) {
      half = Memory::template make_array<std::byte>(far::kPageBytes);
      const auto bytes = half.write();
      fill_part({bytes.data(), bytes.size()}, random);
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

template <typename Memory>
class Service {
 public:
  explicit Service(const Work& work)
      : keys_(service_keys(work.bytes)), elements_(service_elements(work.bytes)), table_(keys_) {
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
      : service_(service), look_up_(service.table(), service.keys(), seed) {}

  void serve(Measured& measured) {
    service_.element(mixed(look_up_(measured))).copy_to(element_);
    measured.checksum += checksum_of(replier_.reply(element_));
    ++measured.operations;
  }

 private:
  const Service<Memory>& service_;
  Lookups<Memory> look_up_;
  std::array<std::byte, kElementBytes> element_;
  Replier replier_;
};

}  // namespace

template <typename Memory>
Measured run_web_service(const Work& work) {
  const Service<Memory> service(work);
  const std::uint64_t requests = service_requests(work.bytes, work.effort);
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
