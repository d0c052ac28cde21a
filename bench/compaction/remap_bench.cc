#include "bench/compaction/remap_bench.h"

#include <array>
#include <memory>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "yonder/base/histogram.h"
#include "yonder/base/prng.h"
#include "yonder/client/session.h"
#include "yonder/fabric/scheduler.h"
#include "yonder/fabric/sim/world.h"
#include "yonder/node/block_table.h"
#include "yonder/node/server.h"

namespace yonder::bench {
namespace {

using client::Session;
using fabric::Task;
using node::ObjectPtr;

double micros(Duration duration) { return std::chrono::duration<double, std::micro>(duration).count(); }

// A node on host 0, clients on the others, one scheduler for all.
class Cluster {
 public:
  static Result<std::unique_ptr<Cluster>> create(const RemapCase& wanted) {
    std::unique_ptr<Cluster> out(new Cluster(wanted));
    YONDER_TRY_VOID(out->serve());
    for (std::uint32_t i = 0; i < wanted.clients; ++i) YONDER_TRY_VOID(out->connect(i + 1));
    YONDER_TRY_VOID(out->thin_out());
    return out;
  }
  ~Cluster() {
    for (auto& session : sessions_) session->close();
    sessions_.clear();
    thread_.reset();
    if (node_ != nullptr) {
      node_->begin_stop();
      // What is left then is the server's to end.
      (void)scheduler_->run(Deadline::after(world_.clock(), std::chrono::seconds(10)));
      node_.reset();
    }
  }
  Cluster(const Cluster&) = delete;
  Cluster& operator=(const Cluster&) = delete;

  Instant now() const { return world_.clock().now(); }
  fabric::Scheduler& scheduler() { return *scheduler_; }
  std::vector<ObjectPtr>& objects() { return objects_; }
  Session& session(std::size_t index) { return *sessions_[index]; }
  std::size_t session_count() const { return sessions_.size(); }
  node::HeapThread& thread() { return *thread_; }
  std::uint64_t switches() const { return node_->heap().compactor().counters().blocks_moved; }
  node::FrameId frame_of(ObjectPtr object) const {
    return node_->heap().blocks().lookup(object.home()).frame();
  }

  // Moves one block, or collects, or ends: false when there is nothing more to do.
  bool advance() {
    constexpr node::SliceLimits kOneBlock{.blocks = 1, .time = std::chrono::seconds(1)};
    const node::SliceOutcome outcome =
        node_->heap().compactor().slice(objects_.front().size_class(), kOneBlock);
    return outcome != node::SliceOutcome::kNothing && outcome != node::SliceOutcome::kBusy;
  }

 private:
  explicit Cluster(const RemapCase& wanted)
      : wanted_(wanted),
        world_({.seed = wanted.seed,
                .hosts = wanted.clients + 1,
                .host = {.nics = {{.model = fabric::sim::rdma100g()}}}}) {}

  Result<void> serve() {
    YONDER_TRY(queue, world_.host(1).fabric().create_completion_queue({}));
    queues_.push_back(std::move(queue));
    scheduler_ = std::make_unique<fabric::Scheduler>(*queues_.front());
    node::NodeOptions options;
    options.ports = {{.fabric = &world_.host(0).fabric(), .address = "sim://host0:7400"}};
    options.heap.classes.frame_bytes = 4096;
    options.heap.limit = Bytes(64 << 20);
    options.heap.seed = wanted_.seed | 1;
    options.heap.remap = wanted_.remap;
    // The paper's blocks: as large as frames.
    options.heap.classes.whole_frame_blocks = true;
    options.mapping = wanted_.mapping;
    options.compaction.automatic = false;
    options.pollers = 0;
    YONDER_TRY(node, node::Server::create(options));
    node_ = std::move(node);
    scheduler_->spawn(node_->serve(*scheduler_));
    YONDER_TRY(thread, node_->heap().register_thread());
    thread_ = std::make_unique<node::HeapThread>(std::move(thread));
    return {};
  }

  Result<void> connect(std::uint32_t host) {
    if (host > 1) {
      YONDER_TRY(queue, world_.host(host).fabric().create_completion_queue({}));
      queues_.push_back(std::move(queue));
    }
    YONDER_TRY(session, Session::connect(world_.host(host).fabric(), {.address = node_->address(),
                                                                      .correction = client::Correction::kScan,
                                                                      .queue = queues_.back().get(),
                                                                      .scheduler = scheduler_.get()}));
    sessions_.push_back(std::move(session));
    return {};
  }

  Result<void> thin_out() {
    const node::SizeClasses& classes = node_->heap().classes();
    const std::uint64_t count = wanted_.frames * classes[classes.class_for(wanted_.object_bytes)].slots;
    const std::vector<std::byte> value(wanted_.object_bytes, std::byte{1});
    for (std::uint64_t i = 0; i < count; ++i) {
      YONDER_TRY(object, thread_->alloc(wanted_.object_bytes));
      YONDER_TRY_VOID(thread_->write(object, value));
      objects_.push_back(object);
    }
    Prng random(wanted_.seed);
    for (auto left = static_cast<std::uint64_t>(wanted_.freed * static_cast<double>(count)); left > 0;
         --left) {
      std::swap(objects_[random.below(objects_.size())], objects_.back());
      YONDER_TRY_VOID(thread_->free(objects_.back()));
      objects_.pop_back();
    }
    // Pages that the NIC never met, keys that nobody asked for: not what is measured.
    std::vector<std::byte> out(wanted_.object_bytes);
    for (const auto& session : sessions_) {
      for (ObjectPtr& object : objects_) YONDER_TRY_VOID(session->direct_read(object, out));
    }
    return {};
  }

  const RemapCase wanted_;
  fabric::sim::World world_;
  std::vector<std::unique_ptr<fabric::CompletionQueue>> queues_;  // One per client's host.
  std::unique_ptr<fabric::Scheduler> scheduler_;
  std::unique_ptr<node::Server> node_;
  std::unique_ptr<node::HeapThread> thread_;
  std::vector<std::unique_ptr<Session>> sessions_;
  std::vector<ObjectPtr> objects_;
};

// ---------------------------------------------------------------- quiet

// An object whose block is in another frame than `frames` says, with a corrected pointer.
Result<ObjectPtr> object_that_moved(Cluster& cluster, const std::vector<node::FrameId>& frames) {
  for (std::size_t i = 0; i < frames.size(); ++i) {
    if (cluster.frame_of(cluster.objects()[i]) != frames[i])
      return cluster.thread().find(cluster.objects()[i]);
  }
  return fail(ErrorCode::kNotFound, "an object of the block that was switched");
}

Result<void> measure_quiet(const RemapCase& wanted, RemapRound& round) {
  RemapCase alone = wanted;
  alone.clients = 1;
  YONDER_TRY(cluster, Cluster::create(alone));
  std::vector<double> tell;
  std::vector<double> first;
  std::vector<double> next;
  std::vector<std::byte> out(wanted.object_bytes);
  for (;;) {
    std::vector<node::FrameId> frames;
    for (const ObjectPtr object : cluster->objects()) frames.push_back(cluster->frame_of(object));
    const std::uint64_t switches = cluster->switches();
    const Instant start = cluster->now();
    if (!cluster->advance()) break;
    if (cluster->switches() == switches) continue;
    const Instant told = cluster->now();
    YONDER_TRY(object, object_that_moved(*cluster, frames));
    YONDER_TRY_VOID(cluster->session(0).direct_read(object, out));
    const Instant one = cluster->now();
    YONDER_TRY_VOID(cluster->session(0).direct_read(object, out));
    tell.push_back(micros(told - start));
    first.push_back(micros(one - told));
    next.push_back(micros(cluster->now() - one));
  }
  if (tell.empty()) return fail(ErrorCode::kNotFound, "a block to switch");
  round.tell_us = median(tell);
  round.first_read_us = median(first);
  round.next_read_us = median(next);
  return {};
}

// ---------------------------------------------------------------- load

class Load {
 public:
  Load(Cluster& cluster, std::uint64_t seed) : cluster_(cluster) {
    for (std::size_t i = 0; i < cluster.session_count(); ++i) {
      // Each client has pointers of its own, and corrects them as it meets them.
      clients_.push_back({.objects = cluster.objects(), .random = Prng(seed + i)});
    }
    for (std::size_t i = 0; i < clients_.size(); ++i) cluster.scheduler().spawn(read(i));
  }

  // What happens until `ends` has run, per second. The histogram stays until stop().
  double watch(Task<void> ends, Histogram& latency) {
    const Instant start = cluster_.now();
    const std::uint64_t before = reads_;
    latency_ = &latency;
    cluster_.scheduler().block_on(std::move(ends));
    latency_ = nullptr;
    const double seconds = std::chrono::duration<double>(cluster_.now() - start).count();
    return static_cast<double>(reads_ - before) / seconds;
  }
  Task<void> wait(Duration time) { co_await cluster_.scheduler().sleep_for(time); }
  Task<void> compact(Duration pause) {
    while (cluster_.advance()) co_await cluster_.scheduler().sleep_for(pause);
  }
  // The readers have ended afterwards.
  void stop() {
    stopping_ = true;
    while (running_ != 0) cluster_.scheduler().block_on(wait(std::chrono::microseconds(10)));
  }
  std::uint64_t failed() const { return failed_; }

 private:
  struct Client {
    std::vector<ObjectPtr> objects;
    Prng random;
  };

  Task<void> read(std::size_t index) {
    ++running_;
    Client& client = clients_[index];
    std::vector<std::byte> out(client.objects.front().size());
    while (!stopping_) {
      const Instant start = cluster_.now();
      Histogram* const latency = latency_;  // Of the time in which the read began.
      const auto version = co_await cluster_.session(index).async_direct_read(
          client.objects[client.random.below(client.objects.size())], out);
      ++reads_;
      if (!version) ++failed_;
      if (latency != nullptr) latency->record(static_cast<std::uint64_t>((cluster_.now() - start).count()));
    }
    --running_;
  }

  Cluster& cluster_;
  std::vector<Client> clients_;
  Histogram* latency_ = nullptr;
  std::uint64_t reads_ = 0;
  std::uint64_t failed_ = 0;
  int running_ = 0;
  bool stopping_ = false;
};

Result<void> measure_load(const RemapCase& wanted, RemapRound& round) {
  YONDER_TRY(cluster, Cluster::create(wanted));
  Load load(*cluster, wanted.seed);
  Histogram before;
  Histogram during;
  round.before_per_second = load.watch(load.wait(wanted.before), before);
  round.during_per_second = load.watch(load.compact(wanted.pause), during);
  load.stop();
  const auto us = [](std::uint64_t ns) { return static_cast<double>(ns) * 1e-3; };
  round.p50_us_before = us(before.percentile(50));
  round.p50_us_during = us(during.percentile(50));
  round.p99_us_before = us(before.percentile(99));
  round.p99_us_during = us(during.percentile(99));
  round.max_us_during = us(during.max());
  round.switches = static_cast<double>(cluster->switches());
  for (std::size_t i = 0; i < cluster->session_count(); ++i) {
    round.connections_broken += static_cast<double>(cluster->session(i).stats().lost_connections);
  }
  round.failed_reads = static_cast<double>(load.failed());
  return {};
}

void add_round(const std::string& name, const RemapRound& round, Report& report) {
  const auto add = [&](const char* key, double value) {
    report.result(std::string(key) + "_" + name, value);
  };
  add("tell_us", round.tell_us);
  add("first_read_us", round.first_read_us);
  add("next_read_us", round.next_read_us);
  add("reads_per_second", round.before_per_second);
  add("p50_us_before", round.p50_us_before);
  add("p50_us_during", round.p50_us_during);
  add("p99_us_before", round.p99_us_before);
  add("p99_us_during", round.p99_us_during);
  add("max_us_during", round.max_us_during);
  add("switches", round.switches);
  add("connections_broken", round.connections_broken);
  add("failed_reads", round.failed_reads);
  const std::array ratio{round.during_per_second / round.before_per_second};
  report.ratio("read_during_vs_before_" + name, ratio);
}

}  // namespace

Result<RemapRound> measure_remap(const RemapCase& wanted) {
  RemapRound round;
  YONDER_TRY_VOID(measure_quiet(wanted, round));
  YONDER_TRY_VOID(measure_load(wanted, round));
  return round;
}

Result<void> run_remap_bench(const Options& options, Report& report) {
  struct Strategy {
    const char* name;
    node::Remap remap = node::Remap::kMmap;
    node::NicMapping mapping = node::NicMapping::kAuto;
  };
  constexpr std::array kStrategies{
      Strategy{"table", node::Remap::kTable},
      Strategy{.name = "odp_prefetch", .mapping = node::NicMapping::kOdpPrefetch},
      Strategy{.name = "odp", .mapping = node::NicMapping::kOdp},
      Strategy{.name = "rereg", .mapping = node::NicMapping::kRereg}};
  report.set_fabric("sim");
  report.set_simulated(true);
  RemapCase wanted{.seed = options.seed};
  if (options.quick) wanted.frames = 100;
  report.param("frames", static_cast<double>(wanted.frames));
  report.param("object_bytes", wanted.object_bytes);
  report.param("clients", wanted.clients);
  for (const Strategy& strategy : kStrategies) {
    wanted.remap = strategy.remap;
    wanted.mapping = strategy.mapping;
    YONDER_TRY(round, measure_remap(wanted));
    add_round(strategy.name, round, report);
  }
  return {};
}

}  // namespace yonder::bench
