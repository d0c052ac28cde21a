// The classic commands that have a key.
#include <optional>

#include "yonder/cache/executor.h"
#include "yonder/cache/numbers.h"

namespace yonder::cache {
namespace {

// A value that changes while it is copied in pieces is copied in one piece at last.
constexpr int kPiecewiseTries = 3;

std::string_view reply_of(StoreOutcome outcome) {
  switch (outcome) {
    case StoreOutcome::kStored:
      return "STORED";
    case StoreOutcome::kExists:
      return "EXISTS";
    case StoreOutcome::kNotFound:
      return "NOT_FOUND";
    case StoreOutcome::kNoMemory:
      return kNoMemory;
    case StoreOutcome::kNotStored:
    case StoreOutcome::kTooLarge:
      return "NOT_STORED";
  }
  return "NOT_STORED";
}

}  // namespace

// ---------------------------------------------------------------- storing

Ran Executor::store(const StorageLine& line, std::string_view value) {
  const Key key(line.key);
  const StoreRequest request{.mode = line.mode,
                             .flags = line.flags,
                             .expires = expiry(line.exptime),
                             .cas = wanted(line.cas),
                             .value = value};
  StoreReply answer{StoreOutcome::kNotStored};
  if (service_.store().store(key, request, now_, answer) == Access::kElsewhere) return Ran::kElsewhere;
  count_store(line.mode, answer.outcome);
  service_.prefixes().count_set(line.key);
  if (answer.outcome == StoreOutcome::kNoMemory) {
    // A client that sees the error must not go on to read the value before.
    if (line.mode == StoreMode::kSet) drop_key(line.key);
    reply(kNoMemory);
    return Ran::kDone;
  }
  reply(reply_of(answer.outcome), line.noreply);
  return Ran::kDone;
}

void Executor::count_store(StoreMode mode, StoreOutcome outcome) {
  counters_.add(Count::kCmdSet);
  if (outcome == StoreOutcome::kNoMemory) counters_.add(Count::kStoreNoMemory);
  if (mode != StoreMode::kCas) return;
  if (outcome == StoreOutcome::kNotFound) counters_.add(Count::kCasMisses);
  if (outcome == StoreOutcome::kExists) counters_.add(Count::kCasBadval);
  if (outcome == StoreOutcome::kStored) counters_.add(Count::kCasHits);
}

void Executor::drop_key(std::string_view name) {
  const Key key(name);
  service_.store().visit(key, [&](Partition& partition) {
    if (Item* item = partition.find(key, now_)) partition.erase(key, *item);
  });
}

bool Executor::refuse_large(const StorageLine& line) {
  const std::size_t limit = service_.options().max_item_bytes;
  if (stored_bytes(line.key.size(), line.flags, line.value_bytes) <= limit) return false;
  counters_.add(Count::kStoreTooLarge);
  if (line.mode == StoreMode::kSet) drop_key(line.key);
  reply(kTooLarge, line.noreply);
  return true;
}

// ---------------------------------------------------------------- reading

Ran Executor::fetch(std::string_view name, const Fetch& fetch) {
  const Key key(name);
  bool again = false;
  for (int i = 0; i < kPiecewiseTries; ++i) {
    // A touch may let the item expire at once: then there is no second look at it.
    const bool whole = fetch.touch || i + 1 == kPiecewiseTries;
    const Ran ran = fetch_once(key, fetch, whole, again);
    if (!again) return ran;
  }
  return Ran::kDone;
}

Ran Executor::fetch_once(const Key& key, const Fetch& fetch, bool whole, bool& again) {
  const std::size_t mark = out_.size();
  LongValue rest;
  bool hit = false;
  Segment segment = Segment::kHot;
  const Access access = service_.store().visit(key, [&](Partition& partition) {
    Item* item = partition.find(key, now_);
    if (item == nullptr) return;
    hit = true;
    segment = item->segment();
    if (fetch.touch) item->expires = expiry(fetch.exptime);
    partition.bump(*item, now_);
    out_.append("VALUE ");
    out_.append(item->key());
    out_.append(' ');
    out_.append_number(item->flags());
    out_.append(' ');
    out_.append_number(item->value_bytes);
    if (fetch.with_cas) {
      out_.append(' ');
      out_.append_number(shown(item->cas));
    }
    out_.append("\r\n");
    append_value(*item, whole, rest);
  });
  if (access == Access::kElsewhere) return Ran::kElsewhere;
  again = rest.bytes != 0 && !append_long_value(key, rest);
  if (again) {
    out_.truncate(mark);
    return Ran::kDone;
  }
  service_.prefixes().count_get(key.bytes, hit);
  if (fetch.touch) {
    counters_.add(Count::kCmdTouch);
    counters_.add(hit ? Count::kTouchHits : Count::kTouchMisses);
  } else {
    count_get(hit, segment);
  }
  return Ran::kDone;
}

void Executor::count_get(bool hit, Segment segment) {
  counters_.add(Count::kCmdGet);
  counters_.add(hit ? Count::kGetHits : Count::kGetMisses);
  if (segment != Segment::kHot)
    counters_.add(segment == Segment::kWarm ? Count::kHitsToWarm : Count::kHitsToCold);
}

void Executor::append_value(const Item& item, bool whole, LongValue& rest) {
  if (item.value_bytes > Store::kShortValue && !whole) {
    rest = {.cas = item.cas, .bytes = item.value_bytes};
    return;
  }
  out_.append_line(item.value());
}

bool Executor::append_long_value(const Key& key, const LongValue& rest) {
  char* to = out_.reserve(rest.bytes + 2);
  if (!service_.store().copy_long_value(key, rest.cas, {to, rest.bytes}, now_)) return false;
  to[rest.bytes] = '\r';
  to[rest.bytes + 1] = '\n';
  out_.commit(rest.bytes + 2);
  return true;
}

// ---------------------------------------------------------------- changing

Ran Executor::keyed(const CommandLine& line) {
  const std::string_view command = line[0];
  if (command == "delete") return erase(line);
  if (command == "touch") return touch(line);
  return arithmetic(line, command == "incr");
}

Ran Executor::erase(const CommandLine& line) {
  if (line.size() < 2 || line.size() > 4) {
    reply("ERROR");
    return Ran::kDone;
  }
  bool noreply = false;
  if (line.size() > 2) {
    const bool zero = line[2] == "0";
    noreply = line.ends_with_noreply();
    const bool valid = (line.size() == 3 && (zero || noreply)) || (line.size() == 4 && zero && noreply);
    if (!valid) {
      reply("CLIENT_ERROR bad command line format.  Usage: delete <key> [noreply]", noreply);
      return Ran::kDone;
    }
  }
  if (line[1].size() > kMaxKeyBytes) {
    reply(kBadFormat, noreply);
    return Ran::kDone;
  }
  const Key key(line[1]);
  bool found = false;
  const Access access = service_.store().visit(key, [&](Partition& partition) {
    Item* item = partition.find(key, now_);
    found = item != nullptr;
    if (found) partition.erase(key, *item);
  });
  if (access == Access::kElsewhere) return Ran::kElsewhere;
  service_.prefixes().count_delete(key.bytes);
  counters_.add(found ? Count::kDeleteHits : Count::kDeleteMisses);
  reply(found ? "DELETED" : "NOT_FOUND", noreply);
  return Ran::kDone;
}

template <typename Number>
std::optional<Number> Executor::argument(const CommandLine& line,
                                         std::optional<Number> (*parse)(std::string_view),
                                         std::string_view if_wrong) {
  if (line.size() != 3 && line.size() != 4) {
    reply("ERROR");
    return std::nullopt;
  }
  const bool long_key = line[1].size() > kMaxKeyBytes;
  const std::optional<Number> number = parse(line[2]);
  if (number && !long_key) return number;
  reply(long_key ? kBadFormat : if_wrong, line.ends_with_noreply());
  return std::nullopt;
}

Ran Executor::touch(const CommandLine& line) {
  const auto exptime = argument(line, parse_i32, "CLIENT_ERROR invalid exptime argument");
  if (!exptime) return Ran::kDone;
  const bool noreply = line.ends_with_noreply();
  const Key key(line[1]);
  bool found = false;
  const Access access = service_.store().visit(key, [&](Partition& partition) {
    Item* item = partition.find(key, now_);
    found = item != nullptr;
    if (!found) return;
    item->expires = expiry(*exptime);
    partition.bump(*item, now_);
  });
  if (access == Access::kElsewhere) return Ran::kElsewhere;
  counters_.add(Count::kCmdTouch);
  counters_.add(found ? Count::kTouchHits : Count::kTouchMisses);
  reply(found ? "TOUCHED" : "NOT_FOUND", noreply);
  return Ran::kDone;
}

Ran Executor::arithmetic(const CommandLine& line, bool increment) {
  const auto delta = argument(line, parse_u64, "CLIENT_ERROR invalid numeric delta argument");
  if (!delta) return Ran::kDone;
  const bool noreply = line.ends_with_noreply();
  const Key key(line[1]);
  ArithmeticReply answer{ArithmeticOutcome::kNotFound};
  const Access access = service_.store().visit(key, [&](Partition& partition) {
    answer = partition.add(key, {.increment = increment, .delta = *delta}, now_);
  });
  if (access == Access::kElsewhere) return Ran::kElsewhere;
  count_arithmetic(increment, answer.outcome != ArithmeticOutcome::kNotFound);
  switch (answer.outcome) {
    case ArithmeticOutcome::kDone:
      if (noreply) break;
      out_.append_number(answer.value);
      out_.append("\r\n");
      break;
    case ArithmeticOutcome::kNotNumeric:
      reply(kNotNumeric, noreply);
      break;
    case ArithmeticOutcome::kNoMemory:
      reply("SERVER_ERROR out of memory");
      break;
    case ArithmeticOutcome::kNotFound:
    case ArithmeticOutcome::kCasMismatch:
      reply("NOT_FOUND", noreply);
      break;
  }
  return Ran::kDone;
}

void Executor::count_arithmetic(bool increment, bool hit) {
  if (increment) {
    counters_.add(hit ? Count::kIncrHits : Count::kIncrMisses);
  } else {
    counters_.add(hit ? Count::kDecrHits : Count::kDecrMisses);
  }
}

}  // namespace yonder::cache
