#pragma once
// The reports of `stats` and its kin, in memcached's form: lines "STAT name value".
//
// Names are memcached's where the thing exists here; items live in partitions with three
// lists each instead of slab classes, so `stats items` and `stats slabs` number the lists
// 1 to 3 (hot, warm, cold), and `stats partitions` is ours.
//
// Concurrency: any thread; partitions are looked at one after the other.

#include <string_view>

#include "yonder/cache/output.h"
#include "yonder/cache/service.h"

namespace yonder::cache {

class StatsReport {
 public:
  StatsReport(Service& service, Output& out) : service_(service), out_(out) {}

  // Each ends with END.
  void general();
  void settings();
  void items();
  void slabs();
  void sizes();
  void connections();
  // Per partition: local or whose, items, bytes, load.
  void partitions();

 private:
  void stat(std::string_view name, std::string_view value);
  void stat(std::string_view name, std::uint64_t value);
  void usage();
  void commands();
  void memory();
  void end() { out_.append("END\r\n"); }

  Service& service_;
  Output& out_;
};

// Items of the first `limit` of one list of each partition, as `stats cachedump` shows them.
void dump_items(Service& service, Output& out, Segment segment, std::size_t limit);
// All items of one partition as lines of `lru_crawler metadump`.
void dump_partition(Service& service, Output& out, std::size_t partition);

}  // namespace yonder::cache
