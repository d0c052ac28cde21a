#pragma once
// The hardware of a simulated host, as numbers: what a network NIC, its PCIe
// bus, its link and the CPU in front of it cost.
//
// A request visits these stations; each has an occupancy (how long it is busy
// per request: this bounds throughput) and a latency (how long the request needs
// to get through: this adds up to the round trip). Both are separate numbers,
// because hardware pipelines: a NIC that takes 200 ns to look at a request may
// accept one every 20 ns.
//
//   CPU: build + doorbell → PCIe → unit ⇒ link ⇒ switch ⇒ link ⇒ unit → memory
//                                    ↖ payload by DMA              ↙ (read: DMA)
//   CPU: poll ← CQE by DMA ← unit ⇐ link ⇐ switch ⇐ link ⇐ acknowledgement or data
//
// Throughput of small messages is 1 / (unit occupancy); of large ones link_byte.
// connectx3_40g() stands near the cluster of paper 002, rdma100g() near a NIC
// of the ConnectX-5 class (paper 000). Fit by changing one copy.
//
// Concurrency and lifetime: values.

#include <cstdint>

namespace yonder::fabric::sim {

// Virtual time inside the model: picoseconds, because at 100 Gb/s a byte takes 80
// of them. 2^63 ps are 106 days.
using Ticks = std::int64_t;
constexpr Ticks ps(std::int64_t count) { return count; }
constexpr Ticks ns(std::int64_t count) { return count * 1'000; }
constexpr Ticks us(std::int64_t count) { return count * 1'000'000; }
constexpr Ticks ms(std::int64_t count) { return count * 1'000'000'000; }

struct NicModel {
  // --- CPU of the thread that owns the queue (occupancy and latency at once)
  Ticks post_request = ns(50);  // building one work queue entry
  Ticks post_piece = ns(6);     // per local piece beyond the first
  Ticks inline_byte = ps(40);   // copying inline payload into the entry
  Ticks bounce_byte = ps(60);   // copying a kUnregistered piece to or from a registered buffer
  Ticks doorbell = ns(30);      // the MMIO store, once per post()
  Ticks poll = ns(40);          // taking one completion
  // What CompletionQueue::charge costs. The numbers are those of the CPU, not fitted to
  // any result: a small copy out of the cache and the bandwidth of a core; a request
  // takes half of what a server of paper 000 needs that also looks an object up
  // (700,000 requests a second, section 4.2); a line of another socket is Table II of
  // paper 002.
  Ticks copy_piece = ns(12);
  Ticks copy_byte = ps(80);
  Ticks request_cpu = ns(700);
  Ticks far_line = ns(162);

  // --- PCIe
  Ticks mmio_latency = ns(120);       // doorbell from CPU to NIC
  Ticks fetch_latency = ns(300);      // entries are fetched when more than one was posted
  Ticks fetch_request = ns(12);       // occupancy per fetched entry
  Ticks dma_read_latency = ns(500);   // payload of writes and sends from local memory
  Ticks dma_write_latency = ns(100);  // towards memory: posted, nobody waits for an answer
  Ticks cqe_latency = ns(120);        // the completion entry reaches memory
  Ticks dma_piece = ns(20);           // occupancy per scatter-gather piece
  Ticks pcie_byte = ps(140);          // occupancy per byte

  // --- Processing units. A queue pair belongs to one of them.
  std::uint32_t units = 1;
  Ticks send_unit = ns(212);          // occupancy: a write, send or atomic at the requester
  Ticks read_unit = ns(238);          // occupancy: a read at the requester
  Ticks piece_unit = ns(4);           // occupancy per piece beyond the first
  Ticks receive_unit = ns(190);       // occupancy: any request at the responder
  Ticks response_unit = ns(20);       // occupancy: a response at the requester
  Ticks send_latency = ns(100);       // through the requester's pipeline
  Ticks receive_latency = ns(100);    // through the responder's pipeline
  Ticks response_latency = ns(60);    // through the requester's pipeline on the way back
  Ticks read_turnaround = ns(815);    // responder: from the read request to its first byte on the link
  Ticks atomic_unit = ns(400);        // occupancy of the one atomics unit of a NIC
  Ticks atomic_turnaround = ns(815);  // responder: locked read-modify-write over PCIe

  // --- Link
  Ticks link_byte = ps(200);  // 40 Gb/s
  std::uint32_t packet_bytes = 2048;
  std::uint32_t packet_overhead_bytes = 30;  // headers and checksums of each packet
  Ticks wire_latency = ns(50);               // one cable

  // --- Caches of the NIC in front of tables in host memory
  std::uint32_t translation_entries = 1024;  // × page size = reach: 4 MiB with 4 KiB pages
  Ticks translation_miss_latency = ns(350);
  Ticks translation_miss_unit = ns(260);
  std::uint32_t context_entries = 256;  // queue pairs
  Ticks context_miss_latency = ns(350);
  Ticks context_miss_unit = ns(220);
  std::uint32_t region_entries = 64;  // registered regions
  Ticks region_miss_latency = ns(700);
  Ticks region_miss_unit = ns(200);

  // --- NUMA: what one hop between the sockets adds
  Ticks numa_mmio_latency = ns(500);
  Ticks numa_dma_latency = ns(70);
  Ticks numa_dma_byte = ps(70);    // occupancy of the path per byte
  Ticks numa_mmio_unit = ns(190);  // occupancy: the NIC waits for flow control of a far CPU
  Ticks numa_dma_unit = ns(12);    // occupancy: more transactions are kept open

  // --- Registration (CoRM, figure 8)
  Ticks reregister = us(70);  // rebind(): accesses meanwhile break their queue pair
  Ticks odp_fault = us(63);   // first access to a page after a remap, on demand
  Ticks odp_prefetch = ns(4500);

  bool on_demand_paging = false;

  // --- Limits
  std::uint32_t max_inline = 256;
  std::uint32_t max_pieces = 32;

  // Bytes on the link for `payload` bytes of one message.
  constexpr std::uint64_t wire_bytes(std::uint64_t payload) const {
    const std::uint64_t packets = payload == 0 ? 1 : (payload + packet_bytes - 1) / packet_bytes;
    return payload + packets * packet_overhead_bytes;
  }
};

// ConnectX-3, one port, 40 Gb/s: write 1.16 µs (inline), read 2.00 µs, 4.7 and 4.2
// million a second.
NicModel connectx3_40g();
// A 100 Gb/s NIC of the ConnectX-5 class with on-demand paging.
NicModel rdma100g();

// What lies between the NICs.
struct NetworkModel {
  Ticks switch_latency = ns(110);
  // Reliable connections: a lost message is sent again after so long …
  Ticks retransmit = ms(4);
  // … and the connection is given up after so many losses in a row.
  std::uint32_t retries = 7;
  // How long until the peers of a crashed host give it up.
  Ticks crash_detection = ms(100);
  // CPU and management packets on both sides, once per connection.
  Ticks handshake = us(100);
};

}  // namespace yonder::fabric::sim
