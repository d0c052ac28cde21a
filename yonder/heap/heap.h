#pragma once
// A far heap: memory for objects that is larger than this machine's share of it.
//
//   auto heap = far::Heap::create({.local = Bytes(1_GiB), .far = Bytes(16_GiB)});
//   far::unique_ptr<Order> order = far::make_unique<Order>(…);       // unique_ptr.h
//   {
//     auto seen = order.read();      // a guard: the object is local and stays where it is
//     total += seen->price;
//   }
//
// Objects live in pages; pages are in local frames or in slots of a memory node. A page that
// is needed comes in as a whole, or only the object that is needed does, together with those
// that are used at the same time: whichever the page's past says is better. What is not used
// leaves by pages. No page fault, no kernel module, no locked instruction where an object is
// local: see docs/heap.md.
//
// One heap per process at a time. A child made by fork must not use the parent's heap: what
// is not local then ends it with a message; exec is fine.
//
// Concurrency: create and destroy from one thread; everything else from any. Threads come and
// go freely, at most `max_threads` at a time.
// Lifetime: every far pointer is gone, and every thread that used one has ended or called
// leave_thread(), before the heap goes (checked).

#include <cstdint>
#include <functional>
#include <memory>
#include <string>

#include "yonder/base/error.h"
#include "yonder/base/id.h"
#include "yonder/base/result.h"
#include "yonder/base/time.h"

namespace yonder::heap {

namespace internal {
class HugeSpace;
class Runtime;
}  // namespace internal
struct PagedSpaceStats;

// How objects come in, and what leaves.
enum class Mode : std::uint8_t {
  kHybrid,  // By page or by object, as the page's past says; pages leave. The default.
  kPaging,  // Pages in, pages out: what a kernel's swap to far memory does (Fastswap).
  kObject,  // Objects in, cold objects out: what an object-fetching runtime does (AIFM).
};

struct HeapOptions {
  Bytes local = Bytes(std::uint64_t{256} << 20);  // Local memory for objects.
  Bytes max_local{0};                             // What set_local() may raise it to; 0: `far`.
  Bytes far = Bytes(std::uint64_t{4} << 30);      // All objects together.
  // For objects over a page (huge.h), beside the others; 0: there are none.
  Bytes huge{0};
  Bytes huge_local{0};  // Local memory for those; 0: a quarter of `huge`.
  std::string node;     // Where yonderd listens; empty: memory of this process.
  std::string link;     // Without a node: how far away ("model=rdma100g").
  Mode mode = Mode::kHybrid;
  // A page of whose cards at least this share was used comes back by page, one below the
  // other by object; in between it stays as it was. (Atlas: 80 %, without the band.)
  double page_above = 0.80;
  double object_below = 0.60;
  // A local page with a smaller share of live objects is evacuated.
  double evacuate_below = 0.50;
  bool evacuate = true;
  bool read_ahead = true;
  std::uint32_t max_threads = 1024;
  std::uint32_t lanes = 4;                     // Connections to the node.
  Duration timeout = std::chrono::seconds(5);  // Of one transfer, and of waiting for local memory.
  // What a dereference does when the node is away, after `timeout`: try again for ever, or
  // give up. try_read() and try_write() then return the error; read() and write() call
  // on_lost, and end the program if that returns.
  bool wait_for_node = false;
  std::function<void(const Error&)> on_lost;
};

// Counted since the beginning.
struct HeapStats {
  // Dereferences that found their object here and had something to note: the first ones of an
  // object, or since the clock hand came by. The others tell nobody, which is why they are cheap.
  std::uint64_t hits = 0;
  std::uint64_t page_ins = 0;             // pages that somebody waited for…
  std::uint64_t object_ins = 0;           // …and objects
  std::uint64_t page_copies = 0;          // pages read for one object (internal/page_copies.h)…
  std::uint64_t objects_from_copies = 0;  // …and objects that then needed no read
  std::uint64_t objects_ahead = 0;        // objects that were asked for by a hint (prefetch)…
  std::uint64_t objects_ahead_used = 0;   // …and then came in without a read of their own
  std::uint64_t bytes_in = 0;             // by all ways
  std::uint64_t bytes_wanted = 0;         // of the objects that were asked for and not there
  std::uint64_t read_ahead = 0;           // pages that came unasked
  std::uint64_t read_ahead_used = 0;
  std::uint64_t pages_written = 0;
  std::uint64_t pages_dropped = 0;  // clean: left without a write
  std::uint64_t objects_written = 0;
  std::uint64_t flips_to_page = 0;
  std::uint64_t flips_to_object = 0;
  std::uint64_t evacuated_pages = 0;
  std::uint64_t healed = 0;     // pointers of objects that had moved
  std::uint64_t stalls = 0;     // waits for a free frame
  std::uint64_t egress_ns = 0;  // of processor time spent on making room, by all threads
  // Now.
  std::uint64_t local_bytes = 0;  // in frames
  std::uint64_t free_bytes = 0;   // frames that hold nothing
  std::uint64_t live_pages = 0;   // of the far address space
  std::uint64_t metadata_bytes = 0;

  // Bytes moved in for each byte that was wanted.
  double amplification() const {
    return bytes_wanted == 0 ? 0 : static_cast<double>(bytes_in) / static_cast<double>(bytes_wanted);
  }
};

class Heap {
 public:
  // Errors: kInvalidArgument (sizes: local memory of at least 64 pages, not more than `far`;
  // shares outside 0…1), kAlreadyExists (this process has a heap), kOutOfMemory,
  // kUnsupported (no membarrier), and those of reaching the node.
  static Result<std::unique_ptr<Heap>> create(const HeapOptions& options);
  ~Heap();
  Heap(const Heap&) = delete;
  Heap& operator=(const Heap&) = delete;

  // Raises or lowers the budget; lowered memory has gone back to the system when it returns.
  // kInvalidArgument (below 64 pages or above max_local), kOutOfMemory (too much of it is
  // pinned: the budget is then as low as it could be made).
  Result<void> set_local(Bytes local);
  Bytes local() const;

  HeapStats stats() const;

  // The same for objects over a page. set_huge_local: from now on; kInvalidArgument (below 64 pages),
  // kNotFound (HeapOptions::huge is 0). The statistics of no memory are zero.
  Result<void> set_huge_local(Bytes local);
  PagedSpaceStats huge_stats() const;

  // Evacuates what is worth it, now; how many pages. The background does so by itself.
  std::size_t evacuate();

  // Gives back what the calling thread holds of the heap. A thread that ends does so itself.
  static void leave_thread();

 private:
  Heap(std::unique_ptr<internal::Runtime> runtime, std::unique_ptr<internal::HugeSpace> huge);
  std::unique_ptr<internal::Runtime> runtime_;
  std::unique_ptr<internal::HugeSpace> huge_;  // Null: HeapOptions::huge is 0.
};

}  // namespace yonder::heap

namespace yonder {
// far::unique_ptr, far::vector: how users spell it.
namespace far = heap;
}  // namespace yonder
