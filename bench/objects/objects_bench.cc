#include "bench/objects/objects_bench.h"

#include <fmt/format.h>

#include <array>
#include <cstring>
#include <string>
#include <utility>
#include <vector>

#include "bench/objects/heap_bench.h"
#include "bench/objects/jemalloc.h"
#include "bench/objects/node_bed.h"
#include "bench/objects/timing.h"
#include "yonder/base/prng.h"
#include "yonder/node/block_table.h"
#include "yonder/node/protocol.h"
#include "yonder/rpc/client.h"

namespace yonder::bench {
namespace {

using client::ReadItem;
using client::Session;
using node::ObjectPtr;

void keep(const void* pointer) { asm volatile("" : : "r"(pointer) : "memory"); }

// What every object of the read benchmarks begins with: the next one of a random
// cycle, so that each read depends on the last.
struct Link {
  ObjectPtr next;
  const std::byte* next_address = nullptr;
};

// Where the object's bytes begin in its frame.
std::uint64_t payload_offset(const node::Heap& heap, ObjectPtr object) {
  const auto& shape = heap.classes()[object.size_class()];
  const std::uint32_t head = heap.classes().validator() == node::Validator::kChecksum
                                 ? node::kHeaderBytes + node::kChecksumBytes
                                 : node::kHeaderBytes;
  return std::uint64_t{object.slot()} * shape.slot_bytes + head;
}

const std::byte* payload_address(const node::Heap& heap, ObjectPtr object) {
  const auto entry = heap.blocks().lookup(object.home());
  return heap.frames().address(entry.frame()) + payload_offset(heap, object);
}

// The same for who reads over a fabric and knows nothing of objects.
std::vector<fabric::RemoteAddress> payload_addresses(const node::Heap& heap,
                                                     const node::protocol::NodeDescription& description,
                                                     std::span<const ObjectPtr> objects) {
  const std::uint64_t units = description.superblock_bytes / node::kUnitBytes;
  std::vector<fabric::RemoteAddress> out;
  out.reserve(objects.size());
  for (const ObjectPtr object : objects) {
    const std::uint64_t frame = heap.blocks().lookup(object.home()).frame().value();
    const fabric::RegionToken& superblock = description.superblocks[frame / units];
    out.push_back(superblock.at(frame % units * node::kUnitBytes + payload_offset(heap, object)));
  }
  return out;
}

// Fills the node, from inside: requests would take minutes.
Result<std::vector<ObjectPtr>> fill(NodeBed& bed, const DirectReadOptions& options) {
  node::Heap& heap = bed.server().heap();
  YONDER_TRY(thread, heap.register_thread());
  const auto& shape = heap.classes()[heap.classes().class_for(options.object_bytes)];
  std::vector<ObjectPtr> objects(options.heap_bytes / shape.slot_bytes);
  for (ObjectPtr& object : objects) {
    YONDER_TRY(made, thread.alloc(options.object_bytes));
    object = made;
  }
  Prng random(options.seed);
  for (std::size_t i = objects.size(); i-- > 1;) std::swap(objects[i], objects[random.below(i)]);
  for (std::size_t i = 0; i < objects.size(); ++i) {
    const ObjectPtr next = objects[(i + 1) % objects.size()];
    const Link link{.next = next, .next_address = payload_address(heap, next)};
    YONDER_TRY_VOID(thread.write(objects[i], std::as_bytes(std::span(&link, 1))));
  }
  return objects;
}

// The data set of the key without suffix: twice the processor's caches.
constexpr std::uint64_t kRpcHeapBytes = std::uint64_t{64} << 20;

std::uint64_t node_bytes(const DirectReadOptions& options) {
  return options.heap_bytes * 5 / 4 + (std::uint64_t{64} << 20);
}

}  // namespace

Result<void> measure_direct_reads(const DirectReadOptions& options, Report& report) {
  YONDER_TRY(bed, NodeBed::create("shm", node_bytes(options)));
  YONDER_TRY(objects, fill(bed, options));
  YONDER_TRY(session, bed.connect());
  std::vector<std::byte> buffer(options.object_bytes);
  bool failed = false;
  // Once around: filling has mapped every page for the loop of memcpy, and the client
  // maps them by reading.
  for (ObjectPtr object : objects) failed |= !session->direct_read(object, buffer);
  Link link{.next = objects[0], .next_address = payload_address(bed.server().heap(), objects[0])};
  const auto ratios = compare(
      options.rounds,
      [&] {
        return rate(options.reads, thread_cpu_seconds, [&](std::uint64_t) {
          failed |= !session->direct_read(link.next, buffer);
          std::memcpy(&link, buffer.data(), sizeof link);
        });
      },
      [&] {
        return rate(options.reads, thread_cpu_seconds, [&](std::uint64_t) {
          std::memcpy(buffer.data(), link.next_address, buffer.size());
          keep(buffer.data());
          std::memcpy(&link, buffer.data(), sizeof link);
        });
      });
  report.ratio(fmt::format("direct_read_vs_memcpy_{}", options.object_bytes), ratios);

  constexpr std::size_t kBatch = 16;
  std::array<ReadItem, kBatch> items;
  std::vector<std::byte> buffers(kBatch * options.object_bytes);
  std::array<const std::byte*, kBatch> addresses{};
  Prng random(options.seed + 1);
  const auto pick = [&](auto&& take) {
    for (std::size_t i = 0; i < kBatch; ++i) take(i, objects[random.below(objects.size())]);
  };
  // Choosing the addresses costs both sides the same, and is not counted.
  const auto batched = [&](auto&& choose, auto&& read) {
    double seconds = 0;
    for (std::uint64_t i = 0; i < options.reads / kBatch; ++i) {
      pick(choose);
      const double start = thread_cpu_seconds();
      read();
      seconds += thread_cpu_seconds() - start;
    }
    return static_cast<double>(options.reads) / seconds;
  };
  const auto batches = compare(
      options.rounds,
      [&] {
        return batched(
            [&](std::size_t i, ObjectPtr object) {
              items[i] = {.object = object,
                          .out = std::span(buffers).subspan(i * options.object_bytes, options.object_bytes)};
            },
            [&] {
              session->direct_read_many(items);
              for (const ReadItem& item : items) failed |= !item.result;
            });
      },
      [&] {
        return batched([&](std::size_t i,
                           ObjectPtr object) { addresses[i] = payload_address(bed.server().heap(), object); },
                       [&] {
                         for (std::size_t i = 0; i < kBatch; ++i) {
                           std::memcpy(buffers.data() + i * options.object_bytes, addresses[i],
                                       options.object_bytes);
                         }
                         keep(buffers.data());
                       });
      });
  report.ratio(fmt::format("direct_read_batch16_vs_memcpy_{}", options.object_bytes), batches);
  const client::SessionStats& stats = session->stats();
  report.result(fmt::format("direct_read_near_share_{}", options.object_bytes),
                static_cast<double>(stats.near_reads) / static_cast<double>(stats.direct_reads));
  return failed_if(failed);
}

Result<void> measure_against_raw(const DirectReadOptions& options, Report& report) {
  YONDER_TRY(bed, NodeBed::create(options.provider, node_bytes(options)));
  YONDER_TRY(objects, fill(bed, options));
  YONDER_TRY(session_queue, bed.fabric().create_completion_queue({.spin = options.spin}));
  YONDER_TRY(session, bed.connect({.queue = session_queue.get()}));
  // A second connection, for reads that know nothing of objects.
  YONDER_TRY(queue, bed.fabric().create_completion_queue({.spin = options.spin}));
  YONDER_TRY(raw, rpc::Client::connect(bed.fabric(), bed.server().address(), *queue, {}));
  YONDER_TRY(description, raw->call<node::protocol::Describe>({}).wait());
  const auto addresses = payload_addresses(bed.server().heap(), description, objects);
  std::vector<std::byte> buffer(options.object_bytes);
  std::vector<std::byte> raw_buffer(options.object_bytes);
  auto piece = fabric::LocalPiece::of(raw_buffer);
  fabric::Region registered;
  if (bed.fabric().capabilities().copies_unregistered) {
    YONDER_TRY(region, bed.fabric().register_memory({.memory = raw_buffer}));
    registered = std::move(region);
    piece.key = registered.local_key();
  }
  bool failed = false;
  Prng random(options.seed);
  std::vector<double> rates;
  std::vector<double> raw_rates;
  const auto ratios = compare(
      options.rounds,
      [&] {
        return rates.emplace_back(rate(options.reads, wall_seconds, [&](std::uint64_t) {
          failed |= !session->direct_read(objects[random.below(objects.size())], buffer);
        }));
      },
      [&] {
        return raw_rates.emplace_back(rate(options.reads, wall_seconds, [&](std::uint64_t) {
          failed |= !raw->endpoint().read(piece, addresses[random.below(addresses.size())]).wait();
        }));
      });
  report.ratio(fmt::format("direct_read_vs_raw_{}", options.object_bytes), ratios);
  report.result(fmt::format("direct_read_us_{}_{}", options.provider, options.object_bytes),
                1e6 / median(rates));
  report.result(fmt::format("raw_read_us_{}_{}", options.provider, options.object_bytes),
                1e6 / median(raw_rates));
  const client::SessionStats& stats = session->stats();
  report.result(fmt::format("direct_read_retries_{}_{}", options.provider, options.object_bytes),
                static_cast<double>(stats.retries) / static_cast<double>(stats.direct_reads));
  return failed_if(failed);
}

Result<void> measure_against_rpc(const DirectReadOptions& options, Report& report) {
  YONDER_TRY(bed, NodeBed::create("shm", node_bytes(options)));
  YONDER_TRY(objects, fill(bed, options));
  YONDER_TRY(session, bed.connect());
  std::vector<std::byte> buffer(options.object_bytes);
  bool failed = false;
  // Once around: the client maps the pages by reading.
  for (ObjectPtr object : objects) failed |= !session->direct_read(object, buffer);
  Prng random(options.seed);
  // The program has its pointers at hand: drawing them from a list of megabytes would
  // miss the cache as often as the read itself, and is not counted.
  std::array<ObjectPtr, 256> hand;
  // The median hand counts: other programs of the machine interrupt some of them.
  const auto rate_of = [&](std::uint64_t reads, auto&& read) {
    std::vector<double> seconds;
    for (std::uint64_t done = 0; done < reads; done += hand.size()) {
      for (ObjectPtr& object : hand) object = objects[random.below(objects.size())];
      const double start = wall_seconds();
      for (ObjectPtr& object : hand) failed |= !read(object);
      seconds.push_back(wall_seconds() - start);
    }
    return static_cast<double>(hand.size()) / median(seconds);
  };
  std::vector<double> direct;
  std::vector<double> rpc;
  const auto ratios = compare(
      options.rounds,
      [&] {
        return direct.emplace_back(rate_of(options.reads, [&](ObjectPtr& object) {
          return session->direct_read(object, buffer).has_value();
        }));
      },
      [&] {
        return rpc.emplace_back(rate_of(
            options.reads / 8, [&](ObjectPtr& object) { return session->read(object, buffer).has_value(); }));
      });
  const std::string suffix =
      options.heap_bytes == kRpcHeapBytes ? "" : fmt::format("_{}mib", options.heap_bytes >> 20);
  report.ratio("direct_read_vs_rpc" + suffix, ratios);
  report.result("direct_read_per_second" + suffix, median(direct));
  report.result("rpc_read_per_second" + suffix, median(rpc));
  return failed_if(failed);
}

namespace {

// The heap's own figures under the keys of the contract: objects of 64 bytes; other
// sizes, and a single object that is freed before the next is made, have keys of their own.
Result<void> add_heap(const Options& options, Report& report) {
  const auto add = [&](std::uint32_t bytes, std::uint32_t live, const std::string& suffix) -> Result<void> {
    Report heap("heap");
    YONDER_TRY_VOID(
        measure_heap_alloc({.object_bytes = bytes, .live = live, .rounds = options.quick ? 5 : 9}, heap));
    for (const auto& [key, ratio] : heap.ratios()) {
      report.ratio("alloc_free_vs_jemalloc" + suffix, ratio, heap.spreads().at(key));
    }
    return {};
  };
  YONDER_TRY_VOID(add(64, 1000, ""));
  for (const std::uint32_t bytes : {32u, 256u, 2048u}) {
    YONDER_TRY_VOID(add(bytes, 1000, fmt::format("_{}", bytes)));
  }
  for (const std::uint32_t bytes : {32u, 64u, 256u, 2048u}) {
    YONDER_TRY_VOID(add(bytes, 1, fmt::format("_{}_one_live", bytes)));
  }
  Report overhead("heap");
  YONDER_TRY_VOID(measure_heap_overhead({.objects = options.quick ? 200'000u : 500'000u}, overhead));
  for (const auto& [key, value] : overhead.results()) report.result(key, value);
  if (!overhead.results().empty()) {
    report.result("bytes_per_object_overhead", overhead.results().begin()->second);
  }
  return {};
}

Result<void> add_against_raw(const Options& options, DirectReadOptions reads, Report& report) {
  reads.heap_bytes = std::uint64_t{reads.provider == "verbs" ? 16u : 64u} << 20;
  reads.reads = options.quick ? 3'000u : 20'000u;
  if (reads.provider == "verbs") reads.reads /= 4;  // An emulated device.
  reads.rounds = options.quick ? 9 : 21;
  reads.seed = options.seed;
  for (const std::uint32_t bytes : {64u, 256u, 2048u}) {
    reads.object_bytes = bytes;
    YONDER_TRY_VOID(measure_against_raw(reads, report));
  }
  return {};
}

}  // namespace

Result<void> run_objects_bench(const Options& options, Report& report) {
  make_room_for_jemalloc();
  report.set_fabric(options.fabric);
  report.param("seed", static_cast<double>(options.seed));
  report.param("quick", options.quick ? "yes" : "no");
  const std::uint64_t heap_bytes = options.quick ? std::uint64_t{256} << 20 : std::uint64_t{1} << 30;
  if (options.wants("shm")) {
    for (const std::uint32_t bytes : {64u, 256u, 2048u}) {
      YONDER_TRY_VOID(measure_direct_reads({.object_bytes = bytes,
                                            .heap_bytes = heap_bytes,
                                            .reads = options.quick ? 50'000u : 200'000u,
                                            .rounds = options.quick ? 9 : 21,
                                            .seed = options.seed},
                                           report));
    }
    // In the caches, beyond them, and far beyond them.
    for (const std::uint64_t bytes : {std::uint64_t{4} << 20, kRpcHeapBytes, heap_bytes}) {
      YONDER_TRY_VOID(measure_against_rpc({.heap_bytes = bytes,
                                           .reads = options.quick ? 40'000u : 200'000u,
                                           .rounds = options.quick ? 9 : 21,
                                           .seed = options.seed},
                                          report));
    }
    YONDER_TRY_VOID(
        measure_corrections({.reads = options.quick ? 4'000u : 20'000u, .seed = options.seed}, report));
    YONDER_TRY_VOID(add_heap(options, report));
    YONDER_TRY_VOID(measure_keeper({.heap_bytes = heap_bytes, .rounds = options.quick ? 5 : 9}, report));
  }
  if (options.wants("tcp")) YONDER_TRY_VOID(add_against_raw(options, {.provider = "tcp"}, report));
  if (options.fabric == "verbs") {  // Not with "all": few machines have a device.
    // In the guest a read takes about as long as a reader spins by default: who sleeps
    // or not would be a matter of luck. Much longer would keep the device's kernel
    // threads from the processor of who spins.
    YONDER_TRY_VOID(
        add_against_raw(options, {.provider = "verbs", .spin = std::chrono::microseconds(200)}, report));
  }
  return {};
}

}  // namespace yonder::bench
