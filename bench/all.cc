#include "bench/all.h"

#include <array>

#include "bench/compaction/compaction_bench.h"
#include "bench/fabric/fabric_bench.h"
#include "bench/fragmentation/fragmentation_bench.h"
#include "bench/fragmentation/traces_bench.h"
#include "bench/hashtable/hashtable_bench.h"
#include "bench/heap/barrier_bench.h"
#include "bench/heap/heap_bench.h"
#include "bench/heap/offload_bench.h"
#include "bench/heap/prefetch_bench.h"
#include "bench/heap/redis_bench.h"
#include "bench/join/join_bench.h"
#include "bench/log/log_bench.h"
#include "bench/migrate/migrate_bench.h"
#include "bench/objects/objects_bench.h"
#include "bench/objects/ycsb_bench.h"
#include "bench/rcached/rcached_bench.h"
#include "bench/remote/access_pattern_bench.h"
#include "bench/remote/atomics_bench.h"
#include "bench/remote/consolidation_bench.h"
#include "bench/remote/numa_bench.h"
#include "bench/remote/vector_io_bench.h"
#include "bench/shuffle/shuffle_bench.h"

namespace yonder::bench {
namespace {

constexpr std::array kBenchmarks = {
    Benchmark{"access-pattern", "sequential against random places in large remote memory",
              &run_access_pattern_bench},
    Benchmark{"atomics", "remote locks and sequencers against requests and a local lock", &run_atomics_bench},
    Benchmark{"barrier", "far pointers to local memory against plain ones; what eviction and tables cost",
              &run_barrier_bench},
    Benchmark{"compaction", "readers before, while and after their memory is compacted (--pause-us P)",
              &run_compaction_bench},
    Benchmark{"consolidation", "small writes through a burst buffer against one by one",
              &run_consolidation_bench},
    Benchmark{"fabric", "the four providers against their raw limits", &run_fabric_bench},
    Benchmark{"fragmentation", "memory after compaction, objects of one size, against every strategy",
              &run_fragmentation_bench},
    Benchmark{"traces", "the same under a real program's allocations (--trace FILE --threads T)",
              &run_traces_bench},
    Benchmark{"hashtable", "a hash table in remote memory against a local one, and against itself plain",
              &run_hashtable_bench},
    Benchmark{"heap", "eight programs on far memory: hybrid against paging, objects, plain memory and swap",
              &run_heap_bench},
    Benchmark{"heap-redis", "an unmodified redis-server, half of it local, against the kernel's swap",
              &run_redis_bench},
    Benchmark{"join", "the distributed join against one machine, simulated, and a oneTBB join, real",
              &run_join_bench},
    Benchmark{"log", "a log in remote memory: batches of records against single ones", &run_log_bench},
    Benchmark{"migrate", "segments and containers that move between two live processes", &run_migrate_bench},
    Benchmark{"numa", "thread, memory and NIC on one socket or not, and the router", &run_numa_bench},
    Benchmark{"objects", "the object API against memcpy, the raw fabric and requests", &run_objects_bench},
    Benchmark{"offload", "DF and WS with their heavy part on the memory node, against fetching",
              &run_offload_bench},
    Benchmark{"prefetch", "a scan of far memory with and without reading ahead, against the link",
              &run_prefetch_bench},
    Benchmark{"rcached", "the cache server against Debian's memcached: throughput, latency, memory",
              &run_rcached_bench},
    Benchmark{"vector-io", "small pieces packed, gathered, behind one doorbell, one by one",
              &run_vector_io_bench},
    Benchmark{"shuffle", "entries in batches against one write per entry, simulated and real",
              &run_shuffle_bench},
    Benchmark{"ycsb", "the YCSB workloads on objects, one-sided against requests", &run_ycsb_bench},
};

}  // namespace

std::span<const Benchmark> all_benchmarks() { return kBenchmarks; }

}  // namespace yonder::bench
