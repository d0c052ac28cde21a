#pragma once
// Executor: carries out one whole command: a line, and the value that came with it.
//
// Knows nothing of sockets and buffers: Conversation gives it commands that are complete,
// and it appends the reply. What it cannot answer because the key is another server's it
// leaves undone, and says so.
//
// Concurrency: one thread at a time. Lifetime: a view of things that outlive it.

#include <cstdint>
#include <optional>
#include <string_view>

#include "yonder/cache/command_line.h"
#include "yonder/cache/counters.h"
#include "yonder/cache/meta_protocol.h"
#include "yonder/cache/output.h"
#include "yonder/cache/service.h"
#include "yonder/cache/text_protocol.h"

namespace yonder::cache {

// How a command ended.
enum class Ran : std::uint8_t {
  kDone,       // The reply is written, if there is one.
  kElsewhere,  // Nothing happened: the key's partition is not here.
  kClose,      // The connection is to be closed.
};

// One key of get, gets, gat or gats.
struct Fetch {
  bool with_cas = false;
  bool touch = false;
  std::int32_t exptime = 0;
};

class Executor {
 public:
  Executor(Service& service, ThreadCounters& counters, Output& out)
      : service_(service), counters_(counters), out_(out) {}

  // The time of the commands that follow; one look at the clock serves a batch of them.
  void set_now(Seconds now) { now_ = now; }
  Seconds now() const { return now_; }

  // Storage commands; `value` without its line end. An item that is too large, or a line
  // that is wrong, never gets here.
  Ran store(const StorageLine& line, std::string_view value);
  Ran meta_set(const CommandLine& line, const MetaLine& meta, StoreMode mode, std::string_view value);
  // A value of this size is too large for -I: replies so, and drops the old item where
  // memcached does.
  bool refuse_large(const StorageLine& line);
  bool refuse_large(const MetaLine& meta);

  // "VALUE …" if the item is there; END is the caller's.
  Ran fetch(std::string_view key, const Fetch& fetch);

  // mg, md, ma.
  Ran meta_get(const CommandLine& line, const MetaLine& meta);
  Ran meta_delete(const CommandLine& line, const MetaLine& meta);
  Ran meta_arithmetic(const CommandLine& line, const MetaLine& meta);
  Ran meta_debug(const CommandLine& line);

  // Every other command that has a key: delete, incr, decr, touch.
  Ran keyed(const CommandLine& line);
  // Every other command.
  Ran administer(const CommandLine& line);

 private:
  struct Sum {
    ArithmeticReply reply{ArithmeticOutcome::kNotFound};
    bool created = false;
  };
  struct LongValue {
    std::uint64_t cas = 0;
    std::size_t bytes = 0;
  };

  Seconds expiry(std::int32_t exptime) const { return expiry_of(exptime, now_, service_.started()); }
  void reply(std::string_view text, bool noreply = false) {
    if (!noreply) out_.append_line(text);
  }
  // A number that -C hides is 0 to clients; what they give for one matches nothing.
  std::uint64_t shown(std::uint64_t cas) const { return service_.options().use_cas ? cas : 0; }
  std::uint64_t wanted(std::uint64_t cas) const {
    return service_.options().use_cas || cas == 0 ? cas : UINT64_MAX;
  }
  void count_store(StoreMode mode, StoreOutcome outcome);
  void count_get(bool hit, Segment segment);
  void drop_key(std::string_view key);
  // A value that is short goes out at once; of a long one the CAS number is noted.
  void append_value(const Item& item, bool whole, LongValue& rest);
  bool append_long_value(const Key& key, const LongValue& rest);
  Ran fetch_once(const Key& key, const Fetch& fetch, bool whole, bool& again);

  Ran erase(const CommandLine& line);
  Ran arithmetic(const CommandLine& line, bool increment);
  Ran touch(const CommandLine& line);
  // The number of "touch key number", "incr key number"; nothing: what is wrong has been said.
  template <typename Number>
  std::optional<Number> argument(const CommandLine& line, std::optional<Number> (*parse)(std::string_view),
                                 std::string_view if_wrong);
  void count_arithmetic(bool increment, bool hit);

  Ran meta_get_once(const CommandLine& line, const MetaLine& meta, const Key& key, bool whole, bool& again);
  Item* vivify(Partition& partition, const Key& key, const MetaLine& meta);
  // False: an opaque is too long; what was appended is then to be taken back.
  bool append_hit(const CommandLine& line, const MetaLine& meta, Item& item, bool created, bool& won);
  void append_miss(const CommandLine& line, const MetaLine& meta);
  // The reply flags of a hit, in the order they were asked for; false: an opaque is too long.
  bool append_get_flags(const CommandLine& line, const MetaLine& meta, Item& item, bool created, bool& won);
  bool append_arithmetic_flags(const CommandLine& line, const MetaLine& meta, Item& item, bool created);
  Sum add_or_create(Partition& partition, const Key& key, const MetaFlags& flags, bool increment);
  bool append_sum(const CommandLine& line, const MetaLine& meta, const Sum& sum);
  // Opaque and key, for replies without an item.
  bool append_echo(const CommandLine& line, const MetaLine& meta);
  bool append_opaque(std::string_view token);
  void append_key(std::string_view key, bool binary);
  void append_ttl(const Item& item);
  // " w17@host:port": where a smart client finds the key.
  void append_where(std::string_view key);

  Ran version(const CommandLine& line);
  Ran no_operation(const CommandLine& line);
  Ran watch(const CommandLine& line);
  Ran verbosity(const CommandLine& line);
  Ran flush_all(const CommandLine& line);
  Ran stats(const CommandLine& line);
  Ran stats_detail(const CommandLine& line);
  Ran stats_cachedump(const CommandLine& line);
  Ran memory_limit(const CommandLine& line);
  Ran lru(const CommandLine& line);
  Ran crawler(const CommandLine& line);
  Ran slabs(const CommandLine& line);
  Ran shutdown(const CommandLine& line);
  Ran refresh_certificates(const CommandLine& line);

  Service& service_;
  ThreadCounters& counters_;
  Output& out_;
  Seconds now_ = 0;
};

}  // namespace yonder::cache
