#pragma once
// The reports of `stats` and its kin, in memcached's form: lines "STAT name value".
//
// Names are memcached's, so that whoever watches memcached can watch this. What counts things
// that cannot happen here (pages of slabs that move, lines of a log that are dropped) is 0.
// What describes things that are not here (libevent, sizes of chunks) is left out. Items of all
// sizes make one slab class, 1 (item.h). `stats partitions` is ours.
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
  void sizes_status();
  void connections();
  // Per partition: local or whose, items, bytes, load.
  void partitions();

 private:
  void stat(std::string_view name, std::string_view value);
  void stat(std::string_view name, std::uint64_t value);
  void usage();
  void commands();
  void commands_of_class(std::string_view prefix);
  void memory();
  void end() { out_.append("END\r\n"); }

  Service& service_;
  Output& out_;
};

// At most `limit` items (0: all that fit a report), as `stats cachedump` shows them.
void dump_items(Service& service, Output& out, std::size_t limit);
// All items of one partition as lines of `lru_crawler metadump`.
void dump_partition(Service& service, Output& out, std::size_t partition);

}  // namespace yonder::cache
